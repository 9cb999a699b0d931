#!/bin/sh
# Installs Longhaul for one user, without root, or removes it.
set -eu

usage() {
    echo "usage: install.sh [--prefix DIR] [--uninstall]   (DIR: ~/.local)" >&2
    exit 2
}

prefix=${HOME:?}/.local
uninstall=false
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -ge 2 ] || usage; prefix=$2; shift 2 ;;
        --prefix=*) prefix=${1#--prefix=}; shift ;;
        --uninstall) uninstall=true; shift ;;
        *) usage ;;
    esac
done
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
list=$prefix/lib/longhaul/installed-files
# The directories that were not there before, outermost first.
made=$prefix/lib/longhaul/made-directories

remove() {
    [ -f "$list" ] || return 0
    while IFS= read -r file; do
        rm -f -- "$prefix/$file"
    done < "$list"
    directories=$(cat "$made" 2>/dev/null) || true
    rm -f -- "$list" "$made"
    # Innermost first; one with other files stays.
    echo "$directories" | sed -n '1!G;h;$p' | while IFS= read -r directory; do
        [ -z "$directory" ] || rmdir -- "$directory" 2>/dev/null || true
    done
}

make_directory() {
    [ ! -d "$1" ] || return 0
    make_directory "$(dirname "$1")"
    mkdir "$1"
    new="$new$1
"
}

if $uninstall; then
    [ -f "$list" ] || { echo "install.sh: nothing is installed in $prefix" >&2; exit 1; }
    remove
    echo "Longhaul is removed from $prefix"
    exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
(cd "$here" && sha256sum --quiet -c SHA256SUMS) || { echo "install.sh: the files are damaged" >&2; exit 1; }
remove
new=
make_directory "$prefix/lib/longhaul"
(cd "$here/root" && find . -type f -o -type l) | sed 's|^\./||' | LC_ALL=C sort > "$list.new"
while IFS= read -r file; do
    make_directory "$(dirname "$prefix/$file")"
    # Another file under the same name: programs that run keep theirs.
    cp -P "$here/root/$file" "$prefix/$file.new.$$"
    mv -f "$prefix/$file.new.$$" "$prefix/$file"
done < "$list.new"
mv "$list.new" "$list"
printf %s "$new" > "$made"
"$prefix/bin/lhssh" -V
echo "Longhaul is installed in $prefix"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "Put it into your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac

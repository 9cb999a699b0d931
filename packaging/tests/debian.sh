# Functions of the tests of installed .deb packages; read by installed.sh and installed_systemd.sh.
export APT_CONFIG=/tmp/apt.conf
printf 'APT::Get::Assume-Yes "true";\nDPkg::Use-Pty "false";\n' > $APT_CONFIG

# Prints the line of docs/install.md, or of another page $2, that begins with $1. interop/tests/doc_commands/followed.rs
# finds the calls of this function and of the next one.
line_of() {
    awk -v start="$1" 'index($0, start) == 1 { print; found = 1; exit } END { exit !found }' "/packages/pages/${2:-install.md}" \
        || fail "${2:-install.md} has no line that begins with $1"
}
# Runs that line in the directory with the packages. Prints what it prints, but not what apt does.
page() {
    line=$(line_of "$@")
    cd /packages
    case $line in
        apt*) quietly eval "$line" ;;
        *) eval "$line" 2>&1 ;;
    esac
    cd - > /dev/null
}

# Makes the packages again with a newer version: /tmp/next-PACKAGE.deb.
make_next() {
    for package in longhaul longhaul-server longhaul-openssh-names; do
        rm -rf /tmp/unpacked
        dpkg-deb --raw-extract /packages/${package}_*.deb /tmp/unpacked
        sed -i -e '/^Version:/s/$/+next/' -e "s/(= \([^)]*\))/(= \1+next)/" /tmp/unpacked/DEBIAN/control
        dpkg-deb --root-owner-group -Znone --build /tmp/unpacked /tmp/next-$package.deb > /dev/null
    done
}

# Functions of the tests of installed .deb packages; read by installed.sh and installed_systemd.sh.
export APT_CONFIG=/tmp/apt.conf
printf 'APT::Get::Assume-Yes "true";\nDPkg::Use-Pty "false";\n' > $APT_CONFIG

# Runs the line of docs/install.md, or of another page $2, that begins with $1, in the directory with the packages.
# Prints what it prints, but not what apt does.
page() {
    page=${2:-install.md}
    line=$(awk -v start="$1" 'index($0, start) == 1 { print; exit }' "/packages/pages/$page")
    [ -n "$line" ] || fail "docs/$page has no line that begins with $1"
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

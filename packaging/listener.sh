# Prints the process id of a listener that was started by hand, from this package's program. Clients, agents and
# sessions run the same program under other names: an old file may have the number of one.
listener() {
    pid=$(cat /run/lhsshd.pid 2> /dev/null) || return 1
    case $(readlink "/proc/$pid/exe") in
        /usr/lib/longhaul/longhaul | "/usr/lib/longhaul/longhaul (deleted)") ;;
        *) return 1 ;;
    esac
    case $(tr '\0' '\n' < "/proc/$pid/cmdline" | head -n 1) in
        lhsshd | */lhsshd) echo "$pid" ;;
        *) return 1 ;;
    esac
}
# Restarts the service, if it runs, by this program. Not where the new version refuses the configuration: the old
# listener still lets users in, and none would be there behind a restart.
restart_service() {
    if said=$(if [ -r /etc/default/lhsshd ]; then . /etc/default/lhsshd; fi
        /usr/sbin/lhsshd -t -f /etc/ssh/lhsshd_config $LHSSHD_OPTIONS 2>&1); then
        "$1" try-restart lhsshd.service > /dev/null || true
    elif systemctl --quiet is-active lhsshd.service; then
        echo "$said" >&2
        echo "lhsshd is not restarted: the old version runs until you change its configuration and call" >&2
        echo "  systemctl restart lhsshd" >&2
    fi
}

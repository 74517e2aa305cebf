#!/bin/sh
# Cargo calls this for the crates of the workspace (.cargo/config.toml), with rustc and its
# arguments. Test programs of the profiles `local` and `dev` are compiled hardly or not optimised,
# in a third of the time, and check overflow and invariants; the crates that they call are those of
# the profile. Cargo has such settings for whole packages only.
case " $* " in
*" --test "*/local/deps\ * | *" --test "*/debug/deps\ *)
    level=0
    case " $* " in
    # These would run longer by more than that.
    *" --crate-name relays "* | *" --crate-name lasthop_core "*)
        level=1 ;;
    esac
    set -- "$@" -C opt-level=$level -C debug-assertions=on -C overflow-checks=on
    ;;
esac
exec "$@"

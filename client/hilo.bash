# bash completion for hilo: commands, options, and names of sequences.

_hilo() {
    local cur prev word command=
    COMPREPLY=()
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="next block create alter advance retire backup ls info top ping doctor bench"
    local general="--server --password-file --timeout --json --help --version"

    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case " $commands " in *" $word "*) command=$word; break ;; esac
    done
    case $prev in
    --password-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --durability) COMPREPLY=($(compgen -W "ahead each" -- "$cur")); return ;;
    --server | -s | --timeout | --start | --max | --token | --interval | -n | -t) return ;;
    esac
    case $cur in
    -*)
        case $command in
        next) general="-n $general" ;;
        create) general="--start --max --durability $general" ;;
        alter) general="--max --durability $general" ;;
        block) general="--token $general" ;;
        top) general="--interval -n $general" ;;
        bench) general="-n -t $general" ;;
        esac
        COMPREPLY=($(compgen -W "$general" -- "$cur"))
        return
        ;;
    esac
    case $command in
    '') COMPREPLY=($(compgen -W "$commands" -- "$cur")) ;;
    next | block | alter | advance | retire | info | bench)
        [ "$prev" = "$command" ] || return
        COMPREPLY=($(compgen -W "$(hilo --timeout 300 ls 2>/dev/null |
            awk 'NR > 1 { print $1 }')" -- "$cur"))
        ;;
    esac
}
complete -F _hilo hilo

#compdef moec
# zsh completion of moec: eval "$(moec completion zsh)", after compinit
#
# Options come from `--help` of a command, and names from `moec list`, when the user asks for them.

_moec_names() { moec list "$1" 2>/dev/null | awk 'NR > 1 { print $1 }'; }
_moec_options() { moec "$1" --help 2>/dev/null | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u; }

_moec() {
  local command=${words[2]} word=${words[CURRENT]}
  if ((CURRENT == 2)); then
    compadd -- @COMMANDS@ --help --version
    return
  fi
  case $word in
  --arch=*) compset -P '*='; compadd -- $(_moec_names archs) ;;
  --gpu=*) compset -P '*='; compadd -- $(_moec_names gpus) ;;
  --scheme=*) compset -P '*='; compadd -- $(_moec_names schemes) ;;
  --engine=*) compset -P '*='; compadd -- $(_moec_names engines) ;;
  --backend=*) compset -P '*='; compadd -- $(_moec_names backends) ;;
  --device=*) compset -P '*='; compadd -- host cuda ;;
  --*=*) compset -P '*='; _files ;;
  -*) compadd -- $(_moec_options $command) ;;
  *)
    case $command in
    list) compadd -- @TABLES@ ;;
    cache) compadd -- @ACTIONS@ ;;
    completion) compadd -- bash zsh ;;
    help) compadd -- @COMMANDS@ ;;
    *) _files ;;
    esac
    ;;
  esac
}
if [[ ${funcstack[1]-} == _moec ]]; then _moec "$@"; else compdef _moec moec; fi

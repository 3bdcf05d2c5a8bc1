# bash completion of moec: eval "$(moec completion bash)"
#
# Options come from `--help` of a command, and names from `moec list`, when the user asks for them.

_moec_names() { moec list "$1" 2>/dev/null | awk 'NR > 1 { print $1 }'; }
_moec_options() { moec "$1" --help 2>/dev/null | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u; }
_moec_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

_moec() {
  local word=$2 before=$3 command=${COMP_WORDS[1]} option=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _moec_words "@COMMANDS@ --help --version" "$word"
    return
  fi
  # bash splits --arch=sm_90a at the sign.
  if [[ $word == "=" ]]; then
    option=$before word=
  elif [[ $before == "=" ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $option in
  --arch) _moec_words "$(_moec_names archs)" "$word" ;;
  --gpu) _moec_words "$(_moec_names gpus)" "$word" ;;
  --scheme) _moec_words "$(_moec_names schemes)" "$word" ;;
  --engine) _moec_words "$(_moec_names engines)" "$word" ;;
  --backend) _moec_words "$(_moec_names backends)" "$word" ;;
  --device) _moec_words "host cuda" "$word" ;;
  ?*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
  if [[ -n $option ]]; then return; fi
  case $command:$word in
  *:-*) _moec_words "$(_moec_options "$command")" "$word" ;;
  list:*) _moec_words "@TABLES@" "$word" ;;
  cache:*) _moec_words "@ACTIONS@" "$word" ;;
  completion:*) _moec_words "bash zsh" "$word" ;;
  help:*) _moec_words "@COMMANDS@" "$word" ;;
  *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}
complete -o filenames -F _moec moec

# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# complete.sh WORD...: what bash offers for the last word, sorted.
eval "$(moec completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_moec moec "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}" | sort

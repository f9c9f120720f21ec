"""``python -m ops.completions [FOLDER]``: write completions below FOLDER (``build/completions``), to look at them.

`ops.packages` puts the same files into the packages that it builds. They are not in git, and a plain ``pip install`` or
``pip wheel`` of a checkout leaves them out: to make them, every package that any command imports must be there, which a
build environment has not. Man pages were rejected: `windward COMMAND --help` prints the same. Shell.
"""

import re
import sys
from pathlib import Path

import shtab

from ops.completions import tree
from schemas.process.flags import Parser

AGENT = "windward-agent"
PLACES = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/site-functions/_{}",
    "fish": "share/fish/vendor_completions.d/{}.fish",
}
"""Where a shell looks for the completion of a command, below the prefix of an installation."""


def files() -> dict[str, dict[str, str]]:
    """Return the text of every file by distribution and by its path below the prefix of an installation."""
    agent = tree.command("agent")
    agent.prog = AGENT
    return {"windward": completions("windward", tree.whole()), AGENT: completions(AGENT, agent)}


AT_EQUALS_SIGNS = """
# bash splits words at "=": --flag=value becomes two words, as --flag value is; name=value becomes one again
_windward_words() {
  local at word before="" words=() current=0 whole=""
  for at in "${!COMP_WORDS[@]}"; do
    word="${COMP_WORDS[at]}"
    (( at > COMP_CWORD )) && break
    if [[ $word == = && $before == --* ]]; then
      word=""
      words+=("")
    elif [[ $word == --*=* ]]; then
      words+=("${word%%=*}" "${word#*=}")
      whole="${word%%=*}="
    elif [[ ${#words[@]} -gt 0 && -z ${words[-1]} && $before == = ]]; then
      words[-1]="$word"
    elif [[ ${#words[@]} -gt 0 && ( $word == = || $before == = ) ]]; then
      words[-1]+="$word"
    else
      words+=("$word")
    fi
    before="${COMP_WORDS[at]}"
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$(( ${#words[@]} - 1 ))
  "$1"
  [[ -n $whole && ${COMP_WORDS[COMP_CWORD-1]} == "${whole%=}" ]] && COMPREPLY=("${COMPREPLY[@]/#/$whole}")
  return 0
}
"""
"""Runs the function of `shtab` on the words as a parser of arguments has them."""
_WITH_VALUE = re.compile(r'"(--[\w-]+)\[((?:\\.|[^]\\])*)]:')
"""A flag with a value, as zsh's `_arguments` has it; with "=" behind its name it is completed after that sign, too."""


def completions(name: str, parser: Parser) -> dict[str, str]:
    return {place.format(name): completion(parser, shell) for shell, place in PLACES.items()}


def completion(parser: Parser, shell: str) -> str:
    text = str(shtab.complete(parser, shell=shell))
    if shell == "zsh":
        text = _WITH_VALUE.sub(r'"\1=[\2]:', text)
    if shell == "bash":
        head, last = text.rstrip().rsplit("\n", 1)  # complete -o bashdefault -F FUNCTION PROGRAM
        function, program = last.split()[-2:]
        asked = f"{function}_asked() {{ _windward_words {function}; }}"
        text = "\n".join([head, AT_EQUALS_SIGNS, asked, f"complete -o bashdefault -F {function}_asked {program}"])
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main(argv: list[str]) -> int:
    folder = Path(argv[0] if argv else "build/completions")
    for found in files().values():
        for name, text in found.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/python
"""An Ansible module: one instance is reserved on a machine, confirmed, or absent. It runs the command `windward`."""

from __future__ import annotations

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: windward
short_description: Place an instance on the machine that Windward chooses
description:
  - Runs the command C(windward) on the host of the task.
  - Its settings (C(WINDWARD_REDIS_URL), C(WINDWARD_REDIS_PASSWORD)) come from the environment of the task.
options:
  id: {type: str, required: true, description: The name of the instance.}
  state:
    type: str
    choices: [reserved, confirmed, absent]
    default: reserved
    description: What it is afterwards. C(reserved) asks for a machine.
  cpu: {type: str, description: Cores as C(2) or C(500m).}
  memory: {type: str, description: Bytes as C(10G).}
  request: {type: dict, description: Any other field of a request, as C(selector) or C(labels).}
  generation: {type: int, description: Which reservation of the name; with it a step is taken on that one only.}
  timeout: {type: str, default: 10s, description: How long to wait for an answer.}
attributes:
  check_mode: {support: full}
"""
EXAMPLES = r"""
- windward: {id: db-1, cpu: 2, memory: 10G, request: {selector: disk=ssd}}
  register: placed
- windward: {id: db-1, generation: "{{ placed.generation }}", state: confirmed}
"""
RETURN = r"""
machine: {type: str, returned: unless state is absent, description: Where the instance goes.}
generation: {type: int, returned: unless state is absent, description: Which reservation of the name it is.}
answer: {type: dict, returned: always, description: The answer of the scorer.}
"""
NO_MACHINE = 3
ARGUMENTS: dict[str, dict[str, Any]] = {
    "id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["reserved", "confirmed", "absent"], "default": "reserved"},
    "cpu": {"type": "str"},
    "memory": {"type": "str"},
    "request": {"type": "dict", "default": {}},
    "generation": {"type": "int"},
    "timeout": {"type": "str", "default": "10s"},
}


def main() -> None:
    """Run the command, and say what changed."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    wanted = module.params
    common = ["--json", "--timeout", wanted["timeout"], *(["--dry-run"] if module.check_mode else [])]
    if wanted["state"] == "reserved":
        amounts = {name: wanted[name] for name in ("cpu", "memory") if wanted[name] is not None}
        query = json.dumps({**wanted["request"], **amounts, "id": wanted["id"]})
        words, data = ["place", "--query", "-", *common], query
    else:
        step = "confirm" if wanted["state"] == "confirmed" else "release"
        which = [] if wanted["generation"] is None else ["--generation", str(wanted["generation"])]
        words, data = [step, wanted["id"], *which, *common], None
    code, printed, problem = module.run_command(["windward", *words], data=data)
    answer = parsed(printed)
    if code == NO_MACHINE:
        module.fail_json(msg=f"no machine fits: {answer.get('reason', '')}", answer=answer)
    error = parsed(problem)
    if error.get("code") == "NOT_FOUND" and (wanted["state"] == "absent" or module.check_mode):
        module.exit_json(changed=wanted["state"] != "absent", answer=error)  # a dry run has reserved nothing to confirm
    if code != 0:
        module.fail_json(msg=error.get("message") or problem or f"windward ended with {code}", answer=error)
    module.exit_json(
        changed=not answer.get("repeated"),
        machine=answer.get("machine"),
        generation=answer.get("generation"),
        answer=answer,
    )


def parsed(text: str) -> dict[str, Any]:
    """Return an answer or an error, which is one JSON object; nothing where it is another text."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    main()

# A job on the machine that Windward chose: place.py beside this file fills in the variable `machine`.
# Nomad has no hook for another scheduler, so the choice goes in as a constraint; Nomad still checks that there is room.
# The names must agree: `node.unique.name` is the host's name, as the agent's machine is.
variable "machine" {
  type        = string
  description = "where the instance goes"
}

variable "instance" {
  type    = string
  default = "web-1"
}

job "web" {
  id          = var.instance
  datacenters = ["*"]
  type        = "service"

  constraint {
    attribute = "${node.unique.name}"
    operator  = "="
    value     = var.machine
  }

  group "web" {
    count = 1

    # A lost machine is not another machine: ask Windward again instead of letting Nomad choose.
    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "web" {
      driver = "exec"

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server"]
      }

      resources {
        cores  = 2
        memory = 10240
      }
    }
  }
}

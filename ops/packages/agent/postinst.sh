#!/bin/sh
# The agent is not enabled or started here: the administrator does so after writing its settings.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # After an upgrade a running agent is restarted, as the new version.
    systemctl try-restart windward-agent.service
fi

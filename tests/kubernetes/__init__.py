"""Tests on a real Kubernetes control plane: `make test-kubernetes`."""

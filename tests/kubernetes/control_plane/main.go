// A Kubernetes control plane in one binary, its scheduler with the plugins of Trimaran as they are published.
//
//	control-plane etcd|apiserver|controller-manager|scheduler|kubectl FLAGS
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	variation "sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	overcommitment "sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	packing "sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
)

func main() {
	part := os.Args[1]
	os.Args = append([]string{"kube-" + part}, os.Args[2:]...)
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	case "controller-manager":
		os.Exit(cli.Run(manager.NewControllerManagerCommand()))
	case "scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand(
			scheduler.WithPlugin(variation.Name, variation.New),
			scheduler.WithPlugin(overcommitment.Name, overcommitment.New),
			scheduler.WithPlugin(packing.Name, packing.New),
		)))
	}
}

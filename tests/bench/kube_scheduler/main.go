// What a decision costs kube-scheduler: processor time of SchedulePod and AssumePod on its cache, without an API server.
//
//	kube-scheduler-bench NODES PODS [mixed]
//
// Default plugins and profile, adaptive share of the nodes (500 of 5,000 are looked at). Pods are of one size; mixed: of
// 64 sizes, and three in four have with a chance of one half each a host port, a node selector, a label. Prints the
// microseconds a pod, after 200 that are not counted. Nodes send no heartbeats meanwhile.
//
// To build it, copy the folder, and there: go build -mod=mod -o kube-scheduler-bench .
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

const warm = 200

var (
	dice  = rand.New(rand.NewSource(1))
	disks = []string{"ssd", "hdd"}
)

func main() {
	nodes, _ := strconv.Atoi(os.Args[1])
	pods, _ := strconv.Atoi(os.Args[2])
	mixed := len(os.Args) > 3
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	adaptive := int32(0)
	s, err := scheduler.New(ctx, client, factory, nil, recorders, scheduler.WithPercentageOfNodesToScore(&adaptive))
	check(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	logger := klog.FromContext(ctx)
	for number := range nodes {
		s.Cache.AddNode(logger, node(number))
	}
	begin := 0.0
	for number := range warm + pods {
		if number == warm {
			begin = processor()
		}
		pod := pod(number, mixed)
		found, err := s.SchedulePod(ctx, s.Profiles["default-scheduler"], framework.NewCycleState(), pod)
		check(err)
		pod.Spec.NodeName = found.SuggestedHost
		check(s.Cache.AssumePod(logger, pod))
	}
	fmt.Printf("%.1f\n", (processor()-begin)/float64(pods)*1e6)
}

func node(number int) *v1.Node {
	cores := []int64{32, 64, 96}[dice.Intn(3)]
	room := amounts(1000*cores, cores*4e9)
	room[v1.ResourcePods] = resource.MustParse("1000")
	name := fmt.Sprintf("n%05d", number)
	labels := map[string]string{
		"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprintf("z%d", number%10), "disk": disks[number%2],
	}
	return &v1.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels},
		Status:     v1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

func pod(number int, mixed bool) *v1.Pod {
	name := fmt.Sprintf("p%d", number)
	asked := amounts(200, 4e8)
	if mixed {
		asked = amounts(50*(1+dice.Int63n(8)), 1e8*(1+dice.Int63n(8)))
	}
	container := v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: asked}}
	found := &v1.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler"},
	}
	if mixed && dice.Intn(4) != 0 {
		if dice.Intn(2) == 0 {
			port := int32(6379 + dice.Intn(200))
			container.Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP}}
		}
		if dice.Intn(2) == 0 {
			found.Spec.NodeSelector = map[string]string{"disk": disks[dice.Intn(2)]}
		}
		if dice.Intn(2) == 0 {
			found.Labels = map[string]string{"app": fmt.Sprintf("app-%d", dice.Intn(5000))}
		}
	}
	found.Spec.Containers = []v1.Container{container}
	return found
}

func amounts(millicores, bytes int64) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(millicores, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
	}
}

// processor returns the processor time of this process, seconds; that of its collector of garbage is in it.
func processor() float64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

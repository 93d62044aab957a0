//go:build unix

package apiserver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// BenchmarkPodWrites measures the lower bound of "Ready pods a second": the writes that a pod needs to become
// Running, through the in-process transport, without watches and without the stage engine. Its cost is that
// of upstream's registry, admission and managed fields, and of our store. It uses all cores, as a busy
// cluster does; the CPU figure is valid on a busy machine too.
func BenchmarkPodWrites(b *testing.B) {
	s, err := start(b.Context(), b.TempDir(), apiserver.Memory{Worlds: store.New(store.Options{})})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	client, err := kubernetes.NewForConfig(s.RESTConfig("bench"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for _, life := range []struct {
		name   string
		writes []podWrite
	}{
		{"create", []podWrite{createPlaced}},
		{"create+status", []podWrite{createPlaced, writeStatus}},
		{"create+status+delete", []podWrite{createPlaced, writeStatus, deleteGracefully, deleteImmediately}},
		{"job: create+status+status+finalizer", []podWrite{createWithFinalizer, writeStatus, writeSucceeded, releaseFinalizer}},
		{"cloneset: create+status+state", []podWrite{createGated, writeStatus, patchNormal}},
		{"cloneset: the same and updated in place", []podWrite{createGated, writeStatus, patchNormal, patchUpdating, patchImage, writeRestarted, patchNormal, writeReady}},
		{"cloneset: the same, sent whole", []podWrite{createGated, writeStatus, patchNormal, wholeUpdating, wholeImage, writeRestarted, wholeNormal, writeReady}},
		{"create+bind+event+status", []podWrite{createUnplaced, bind, writeEvent, writeStatus}},
	} {
		b.Run(life.name, func(b *testing.B) { benchmarkPodWrites(b, client, life.writes) })
	}
}

func benchmarkPodWrites(b *testing.B, client kubernetes.Interface, writes []podWrite) {
	b.ReportAllocs()
	before := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p := benchPod()
			for _, write := range writes {
				if err := write(b.Context(), client, p); err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/pod")
	none := int64(0)
	if err := client.CoreV1().Pods("default").DeleteCollection(b.Context(), metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
}

// cpuTime returns the CPU time that this process has used, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// podWrite is one write in the lifecycle of a pod; p is the state after the previous write.
type podWrite func(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error

func createPlaced(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	p.Spec.NodeName = "node-0"
	return createUnplaced(ctx, client, p)
}

func createUnplaced(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	made, err := client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err == nil {
		*p = *made
	}
	return err
}

// bind is the scheduler's write. Its answer contains no revision, so the next write has no precondition.
func bind(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node-0"},
	}
	p.ResourceVersion, p.Spec.NodeName = "", "node-0"
	return client.CoreV1().Pods(p.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// writeEvent creates the Event Scheduled, as the scheduler does for each pod.
func writeEvent(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	_, err := client.EventsV1().Events(p.Namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + ".scheduled"},
		EventTime:  metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "Scheduled", Action: "Binding",
		Note:                "Successfully assigned " + p.Namespace + "/" + p.Name + " to node-0",
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		ReportingController: "default-scheduler", ReportingInstance: "default-scheduler-bench",
	}, metav1.CreateOptions{})
	return err
}

func writeStatus(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	running(p)
	return putStatus(ctx, client, p)
}

// createWithFinalizer is a Job controller's create: the pod has its finalizer.
func createWithFinalizer(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	return createPlaced(ctx, client, p)
}

func writeSucceeded(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	p.ResourceVersion, p.Status.Phase = "", corev1.PodSucceeded
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].Status = corev1.ConditionFalse
	}
	now := metav1.NewTime(time.Now())
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}}
	_, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return err
}

// releaseFinalizer is the patch with which a Job controller removes its finalizer.
func releaseFinalizer(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, p.UID, batchv1.JobTrackingFinalizer)
	_, err := client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// deleteGracefully is the user's delete: the pod gets a deletion timestamp.
func deleteGracefully(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	return client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
}

// deleteImmediately is the delete of the kubelet, or of the stage engine.
func deleteImmediately(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	now := int64(0)
	return client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID}})
}

// benchPods numbers the pods of all benchmarks, so that each name is used once.
var benchPods atomic.Int64

func benchPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("bench-%d", benchPods.Add(1)), Labels: map[string]string{"app": "bench"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
}

// running sets what the built-in stages set when a pod becomes Running.
func running(p *corev1.Pod) {
	now := metav1.NewTime(time.Now())
	started := true
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
	p.Status.HostIP, p.Status.HostIPs = "10.16.0.1", []corev1.HostIP{{IP: "10.16.0.1"}}
	p.Status.PodIP, p.Status.PodIPs = "10.128.0.1", []corev1.PodIP{{IP: "10.128.0.1"}}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "nginx", ImageID: "nginx", ContainerID: "rehearse://main", Ready: true, Started: &started,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
}

package apiserver_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/apiserver"
	"github.com/rehearse-k8s/rehearse/store"
)

// BenchmarkPodWrites is the floor under "Ready pods a second": the two writes
// that a pod needs to become Running, through the in-process door, with nobody
// watching and no engine. What it costs is upstream's registry, admission and
// managed fields, and our store. It uses all cores, as a busy cluster does.
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
	pods := client.CoreV1().Pods("default")
	for _, writes := range []string{"create", "create+status"} {
		b.Run(writes, func(b *testing.B) {
			var next atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, err := pods.Create(b.Context(), benchPod(writes[:6], next.Add(1)), metav1.CreateOptions{})
					if err != nil {
						b.Error(err)
						return
					}
					if writes == "create" {
						continue
					}
					running(p)
					if _, err := pods.UpdateStatus(b.Context(), p, metav1.UpdateOptions{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
			none := int64(0)
			if err := pods.DeleteCollection(b.Context(), metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchPod(prefix string, i int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i), Labels: map[string]string{"app": "bench"}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%1000), Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
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

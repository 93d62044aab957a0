package job

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// big returns a Job with so many pods: active of them run, fresh of them have succeeded and are not recorded,
// and the others are counted. Nothing else is to be done.
func big(indexed bool, all, active, fresh int) State {
	words := fmt.Sprintf("p=%d c=%d started=90", active+fresh, all)
	if indexed {
		words += " indexed"
	}
	j := newJob(words)
	// Half of the cluster is slow: indexes finish in no order.
	order := func(i int) int { return (i*7 + 3) % all }
	pods := make([]*corev1.Pod, all)
	var done Indexes
	for i := range pods {
		index := order(i)
		p := newPod(i, fmt.Sprintf("R ready node #%d", index))
		p.Name = fmt.Sprintf("pi-%06d", i)
		p.UID = types.UID(fmt.Sprintf("7d0f3c1e-7a4d-4f0e-9a55-%012d", i))
		p.Spec.Containers = []corev1.Container{{Name: "main"}}
		if !indexed {
			p.Annotations = nil
		}
		switch {
		case i < active:
		default:
			p.Status.Phase = corev1.PodSucceeded
			p.Status.Conditions = nil
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(noon)}}}}
			if i >= active+fresh {
				p.Finalizers = nil
				if indexed {
					done = done.With(Span{index, index})
				}
			}
		}
		pods[i] = p
	}
	j.Status.Succeeded = int32(all - active - fresh)
	j.Status.Active, j.Status.Ready, j.Status.Terminating = int32(active+fresh), ptr.To(int32(active+fresh)), ptr.To[int32](0)
	if fresh == 0 {
		j.Status.Active, *j.Status.Ready = int32(active), int32(active)
	}
	if indexed {
		j.Status.CompletedIndexes = done.String()
	}
	j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	return State{Job: j, Pods: pods, Limits: DefaultLimits, Past: Past{Seeded: true}}
}

var benchmarked Decision

// processorTime returns the CPU time that this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPlan plans for a Job of 10,000 pods, 1,000 of them active.
func BenchmarkPlan(b *testing.B) {
	for _, indexed := range []bool{false, true} {
		for _, fresh := range []int{0, 100} {
			s := big(indexed, 10_000, 1_000, fresh)
			name := "NonIndexed"
			if indexed {
				name = "Indexed"
			}
			b.Run(fmt.Sprintf("%s/fresh=%d", name, fresh), func(b *testing.B) {
				b.ReportAllocs()
				before := processorTime()
				for b.Loop() {
					benchmarked = Plan(noon, s)
				}
				// The CPU time of this process excludes the load of other processes.
				b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

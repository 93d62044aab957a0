package simtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/stage"
)

// TestGeneralStages runs pods through the general stages with any fault and a second writer of their status: the status
// only moves forward, and no pod stays Terminating. The long search is `go test -timeout 0 -run TestGeneralStages -simtest.seeds=10000 ./simtest`.
func TestGeneralStages(t *testing.T) {
	builtin, err := stage.Builtin("pod-general")
	must(t, err)
	general, err := stage.Compile(builtin)
	must(t, err)
	runs := 150
	if testing.Short() {
		runs = 30
	}
	simtest.Run(t, simtest.Seeds(runs), func(w *simtest.World) {
		w.Kubelet(func(o *stages.StageOptions) { o.Stages = general })
		w.Controller("writer", lateWriter)
		w.Always(onlyForward())

		server := pod("server")
		always := corev1.ContainerRestartPolicyAlways
		server.Spec.InitContainers = []corev1.Container{
			{Name: "first", Image: "first:1"}, {Name: "sidecar", Image: "sidecar:1", RestartPolicy: &always},
		}
		held := pod("held")
		held.Finalizers = []string{"example.com/hold"}
		crashing := pod("crashing")
		crashing.Annotations = map[string]string{"rehearse-k8s.github.io/run-for": "5s", "rehearse-k8s.github.io/exit-code": "1,0"}
		crashing.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		task := pod("task")
		task.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: task.Spec}}}
		w.Create(job)
		task.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: job.UID}}
		w.Create(server, held, crashing, task)
		w.Settle()
		w.Delete(held)
		w.Settle()
		w.Patch(held, types.JSONPatchType, `[{"op":"remove","path":"/metadata/finalizers"}]`)
		w.Delete(server)
		w.Eventually(10*time.Minute, invariant.Gone("pods", "default", "held"))
		w.Eventually(10*time.Minute, invariant.Gone("pods", "default", "server"))
		w.Eventually(10*time.Minute, phaseOrGone("task", "Succeeded"))
		w.Eventually(10*time.Minute, phaseOrGone("crashing", "Succeeded"))
	})
}

// lateWriter copies the phase of each pod into a condition of its status, two seconds late and without a
// resourceVersion, as kubelets and node controllers do. It compares the condition with the phase whenever the pod
// changes: with overlap two instances run, and the older one may write an older phase last.
func lateWriter(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	changed := make(chan *corev1.Pod, 100)
	observe := func(o any) { changed <- o.(*corev1.Pod) }
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: observe, UpdateFunc: func(_, o any) { observe(o) },
	}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	for {
		select {
		case p := <-changed:
			for retry := true; retry; {
				if p, err = pods.Lister().Pods(p.Namespace).Get(p.Name); err != nil || p.Spec.NodeName == "" || hasPhase(p) {
					break // the pod is gone, has no node yet, or needs no write
				}
				patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"conditions":[{"type":%q,"status":"True","reason":%q}]}}`, p.UID, phaseCondition, p.Status.Phase)
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
					return nil
				}
				_, err := client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
				retry = err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// phaseCondition is the type of lateWriter's condition.
const phaseCondition = "example.com/phase"

// hasPhase reports whether lateWriter's condition has the current phase as its reason.
func hasPhase(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == phaseCondition && c.Reason == string(p.Status.Phase)
	})
}

// phaseOrGone requires that a pod is in a phase or does not exist.
func phaseOrGone(name, phase string) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("pod %s is %s, or gone", name, phase), func(v invariant.View) error {
		p := v.Get("pods", "default", name)
		if p == nil {
			return nil
		}
		if got, _, _ := unstructured.NestedString(p.Object, "status", "phase"); got != phase {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// onlyForward compares the status of each pod with its status at the previous step.
func onlyForward() invariant.Invariant {
	ranks := map[corev1.PodPhase]int{"": 0, corev1.PodPending: 0, corev1.PodRunning: 1, corev1.PodSucceeded: 2, corev1.PodFailed: 2}
	before := map[types.UID]*corev1.Pod{}
	return invariant.Func("a pod's status only moves forward", func(v invariant.View) error {
		for _, u := range v.List("pods") {
			now := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, now); err != nil {
				return err
			}
			was := before[now.UID]
			before[now.UID] = now
			switch {
			case was == nil:
			case ranks[now.Status.Phase] < ranks[was.Status.Phase], ranks[was.Status.Phase] == 2 && now.Status.Phase != was.Status.Phase:
				return fmt.Errorf("%s went from %s to %s", now.Name, was.Status.Phase, now.Status.Phase)
			case was.Status.PodIP != "" && now.Status.PodIP != was.Status.PodIP:
				return fmt.Errorf("the address of %s was %s and is %q", now.Name, was.Status.PodIP, now.Status.PodIP)
			case restarts(now) < restarts(was):
				return fmt.Errorf("%s had %d restarts and has %d", now.Name, restarts(was), restarts(now))
			}
		}
		return nil
	})
}

func restarts(p *corev1.Pod) (n int32) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/stage"
)

// bound are pods on a simulated node, created by several clients in parallel.
func bound(t *testing.T, client kubernetes.Interface, n int, each func(*corev1.Pod)) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the service account of pods", func() error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	forEach(t, n, func(ctx context.Context, i int) error {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i)},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}
		each(p)
		_, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// forEach calls f for the numbers below n, eight at a time.
func forEach(t *testing.T, n int, f func(context.Context, int) error) {
	t.Helper()
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range numbers {
				if err := f(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func clientOf(t *testing.T, c *cluster.Cluster) kubernetes.Interface {
	t.Helper()
	config := c.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestNoneLeftInTerminating reproduces kwok issue 958: many pods with a finalizer are deleted at once, and a
// delayed stage removes the finalizer. During the delay other clients change each pod, so that its events
// arrive in any order.
func TestNoneLeftInTerminating(t *testing.T) {
	many := 1000
	if testing.Short() { // enough for the race detector
		many = 200
	}
	c := startCluster(t, cluster.Options{Controllers: []string{"stage", "serviceaccount-controller"}})
	client := clientOf(t, c)
	pods := client.CoreV1().Pods("default")
	install(t, client, `
metadata: {name: pod-remove-finalizer}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: '.metadata.finalizers.[]', operator: In, values: [kwok.x-k8s.io/fake]}
  weight: 1000
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}
  next: {finalizers: {remove: [{value: kwok.x-k8s.io/fake}]}}
`)
	bound(t, client, many, func(p *corev1.Pod) { p.Finalizers = []string{"kwok.x-k8s.io/fake"} })
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	forEach(t, many, func(ctx context.Context, i int) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"seen":"%d"}}}`, i)
		_, err := pods.Patch(ctx, fmt.Sprintf("p-%d", i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	await(t, "all pods gone", func() error {
		left, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if n := len(left.Items); n > 0 {
			return fmt.Errorf("%d are left; the first is %s with finalizers %v, deleted at %s", n, left.Items[0].Name, left.Items[0].Finalizers, left.Items[0].DeletionTimestamp)
		}
		return nil
	})
}

// install creates Stage objects; text is without its first lines.
func install(t *testing.T, client kubernetes.Interface, text string) {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a stage made", func() error {
		return client.CoreV1().RESTClient().Post().AbsPath("/apis/kwok.x-k8s.io/v1alpha1/stages").
			SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error()
	})
}

// TestNoPodGoesBack reproduces kwok issue 1002: the general stages are applied to pods that already run.
func TestNoPodGoesBack(t *testing.T) {
	many := 300
	if testing.Short() { // enough for the race detector
		many = 100
	}
	c := startCluster(t, cluster.Options{Controllers: []string{"stage", "serviceaccount-controller"}, StageFiles: []string{"builtin:node-fast"}})
	client := clientOf(t, c)
	pods := client.CoreV1().Pods("default")
	bound(t, client, many, func(*corev1.Pod) {})
	started := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	forEach(t, many, func(ctx context.Context, i int) error {
		p, err := pods.Get(ctx, fmt.Sprintf("p-%d", i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: started}
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &started, Conditions: []corev1.PodCondition{ready},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}},
		}
		if i%2 == 0 { // the others have no address, like older kubelets' pods on the host network
			p.Status.PodIP, p.Status.PodIPs = "10.9.0.1", []corev1.PodIP{{IP: "10.9.0.1"}}
		}
		_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
	seen := watchPods(t, client)
	stages, err := stage.Builtin("pod-general")
	if err != nil {
		t.Fatal(err)
	}
	for i := range stages {
		stages[i].ResourceVersion = ""
		body, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"name": stages[i].Name, "annotations": stages[i].Annotations}, "spec": stages[i].Spec})
		if err != nil {
			t.Fatal(err)
		}
		install(t, client, string(body))
	}
	// New pods become Ready only if the stages are played.
	forEach(t, 20, func(ctx context.Context, i int) error {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("new-%d", i)},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}
		_, err := pods.Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	seen.untilRunning(t, 20)
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	seen.untilGone(t, many+20)
	if seen.back != "" {
		t.Errorf("a pod that ran went back: %s", seen.back)
	}
}

// history records what a watch of pods has observed.
type history struct {
	client  kubernetes.Interface
	mu      sync.Mutex
	changed sync.Cond
	ran     map[types.UID]bool
	fresh   int // pods that became Running during the watch
	gone    int
	back    string
}

func watchPods(t *testing.T, client kubernetes.Interface) *history {
	t.Helper()
	list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := &history{client: client, ran: map[types.UID]bool{}}
	h.changed.L = &h.mu
	for i := range list.Items {
		h.ran[list.Items[i].UID] = list.Items[i].Status.Phase == corev1.PodRunning
	}
	// The server ends the watch of a client that is slow for a moment; the watch resumes where it ended.
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods("default").Watch(ctx, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				h.see(string(e.Type), p)
			}
		}
	}()
	return h
}

func (h *history) see(what string, p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case what == "DELETED":
		h.gone++
	case p.Status.Phase == corev1.PodRunning && !h.ran[p.UID]:
		h.ran[p.UID], h.fresh = true, h.fresh+1
	case p.Status.Phase == corev1.PodPending && h.ran[p.UID]:
		h.back = p.Name
	}
	h.changed.Broadcast()
}

// phases counts the existing pods by phase.
func (h *history) phases(t *testing.T) map[string]int {
	list, err := h.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return nil
	}
	out := map[string]int{}
	for i := range list.Items {
		p := &list.Items[i]
		out[fmt.Sprintf("%s, deleted: %t", p.Status.Phase, p.DeletionTimestamp != nil)]++
	}
	return out
}

func (h *history) untilRunning(t *testing.T, n int) {
	t.Helper()
	h.until(t, "pods that came to run", n, &h.fresh)
}

func (h *history) untilGone(t *testing.T, n int) {
	t.Helper()
	h.until(t, "pods gone", n, &h.gone)
}

// until waits for a count, at most a minute.
func (h *history) until(t *testing.T, what string, n int, count *int) {
	t.Helper()
	over := false
	timer := time.AfterFunc(time.Minute, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		over = true
		h.changed.Broadcast()
	})
	defer timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for *count < n && !over {
		h.changed.Wait()
	}
	if *count < n {
		t.Fatalf("%s: %d of %d after a minute; the API has %v", what, *count, n, h.phases(t))
	}
}

package cluster_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/stage"
)

// finishStage completes a labelled pod that has run for five seconds: long enough to stop an engine in
// between and change a few objects.
const finishStage = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: finish}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {finish: later}
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
  delay: {durationMilliseconds: 5000}
  next:
    statusTemplate: "phase: Succeeded"
`

// TestEngineRestart stops the stage engine during delays, changes objects, and starts another one over the
// same API server. No stage is played twice or forgotten, and delays continue rather than restart.
func TestEngineRestart(t *testing.T) {
	t.Parallel()
	p, config := startBareServer(t)
	stop := startEngine(t, config)
	known := []string{"kept", "spared", "deleted", "vanished", "replaced"}
	for _, name := range known {
		p.create(name)
	}
	for _, name := range known {
		p.reach(name, corev1.PodRunning)
	}
	first := p.last["replaced"].UID
	stop()

	now := int64(0)
	p.patch("kept", `{"metadata":{"annotations":{"note":"changed during the restart"}}}`)
	p.patch("spared", `{"metadata":{"labels":{"finish":null}}}`)
	p.delete("deleted", nil) // waits for a kubelet, which does not exist
	p.delete("vanished", &now)
	p.delete("replaced", &now)
	p.create("replaced")
	p.create("new")

	stop = startEngine(t, config)
	p.gone("deleted")
	p.reach("new", corev1.PodRunning)
	p.reach("kept", corev1.PodSucceeded)
	p.reach("new", corev1.PodSucceeded)
	p.reach("replaced", corev1.PodSucceeded)
	// There is one worker: a stage that is played after all of them shows that none was played again.
	p.create("last")
	p.reach("last", corev1.PodRunning)
	stop()

	if p.last["replaced"].UID == first {
		t.Error("the pod of the same name is the old one")
	}
	if kept, younger := p.finished["kept"], p.finished["new"]; kept > younger {
		t.Errorf("the pod whose delay began under the first engine was seen finished as event %d, after a younger one as event %d: its delay began again", kept, younger)
	}
	for uid, n := range p.played {
		if n != 1 {
			t.Errorf("pod with UID %s became Succeeded %d times", uid, n)
		}
	}
	if phase := p.last["spared"].Status.Phase; phase != corev1.PodRunning {
		t.Errorf("the pod that lost its label is %s: a stage that no longer matched was played", phase)
	}
}

// startEngine runs an engine with one worker, so that stages are played in order, and returns a function that
// stops it.
func startEngine(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	builtin, err := stage.Builtin("builtin:pod-fast")
	if err != nil {
		t.Fatal(err)
	}
	finish, err := stage.Load("finish.yaml", []byte(finishStage))
	if err != nil {
		t.Fatal(err)
	}
	set, err := stage.Compile(append(builtin, finish...))
	if err != nil {
		t.Fatal(err)
	}
	e, err := stages.NewStageEngine(config, stages.StageOptions{Stages: set, LeaseDuration: -1, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// startBareServer runs an API server with a simulated node and nothing else.
func startBareServer(t *testing.T) (*watchedPods, *rest.Config) {
	t.Helper()
	s, err := apiserver.Start(t.Context(), apiserver.Options{
		Dir: filepath.Join(t.TempDir(), "pki"), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, WatchCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := s.RESTConfig("test")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-0", Annotations: map[string]string{stages.SimulatedAnnotation: stages.SimulatedAnnotationValue},
	}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &watchedPods{
		t: t, client: client, watch: w, last: map[string]*corev1.Pod{}, played: map[types.UID]int{}, finished: map[string]int{},
	}, config
}

// watchedPods writes pods and records what a watch observes of them.
type watchedPods struct {
	t      *testing.T
	client kubernetes.Interface
	watch  watch.Interface

	last     map[string]*corev1.Pod // the last observed state; nil: deleted
	played   map[types.UID]int      // how often it became Succeeded
	finished map[string]int         // by number of events until then
	events   int
}

func (p *watchedPods) create(name string) {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"finish": "later"}},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
	if _, err := p.client.CoreV1().Pods("default").Create(p.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *watchedPods) patch(name, patch string) {
	p.t.Helper()
	_, err := p.client.CoreV1().Pods("default").Patch(p.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *watchedPods) delete(name string, grace *int64) {
	p.t.Helper()
	if err := p.client.CoreV1().Pods("default").Delete(p.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		p.t.Fatal(err)
	}
}

// reach reads events until a pod is observed in a phase.
func (p *watchedPods) reach(name string, phase corev1.PodPhase) {
	p.t.Helper()
	p.until(name+" is "+string(phase), func() bool {
		pod := p.last[name]
		return pod != nil && pod.Status.Phase == phase
	})
}

// gone reads events until the deletion of a pod is observed.
func (p *watchedPods) gone(name string) {
	p.t.Helper()
	p.until(name+" is gone", func() bool {
		pod, seen := p.last[name]
		return seen && pod == nil
	})
}

func (p *watchedPods) until(what string, reached func() bool) {
	p.t.Helper()
	limit := time.After(60 * time.Second)
	for !reached() {
		select {
		case e, ok := <-p.watch.ResultChan():
			if !ok {
				p.t.Fatalf("the watch ended before %s", what)
			}
			p.see(e)
		case <-limit:
			p.t.Fatalf("never: %s", what)
		}
	}
}

func (p *watchedPods) see(e watch.Event) {
	p.events++
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		p.t.Fatalf("the watch says %v", e)
	}
	if e.Type == watch.Deleted {
		p.last[pod.Name] = nil
		return
	}
	before := p.last[pod.Name]
	if pod.Status.Phase == corev1.PodSucceeded && (before == nil || before.Status.Phase != corev1.PodSucceeded) {
		p.played[pod.UID]++
		p.finished[pod.Name] = p.events
	}
	p.last[pod.Name] = pod
}

package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Engine returns the constructor of an engine that runs a set of stages.
type Engine func(*stage.Set) simtest.Constructor

// Real is the stage engine (package internal/controller/stages).
func Real(set *stage.Set) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		e, err := stages.NewStageEngine(config, stages.StageOptions{
			Stages: set, Seed: 1, Manage: stages.NodeFilter{All: true}, LeaseDuration: -1, Workers: 1, Audit: -1,
		})
		if err != nil {
			return err
		}
		return e.Run(ctx)
	}
}

// actor is the name of the engine in faults.
const actor = "stages"

// Times of a scenario, by the run's clock. A stage that the API rejects each time takes minutes until another
// one is drawn.
const (
	toLastRank = 3 * time.Hour
	toGo       = 15 * time.Minute
	toRecreate = 5 * time.Minute
)

// Test returns the test of the case. The faults are some of the patterns; without patterns, all legal faults
// of the engine.
func (c Case) Test(engine simtest.Constructor, patterns ...fault.Fault) func(*simtest.World) {
	if len(patterns) == 0 {
		patterns = family.AnyFault(actor)
	}
	return func(w *simtest.World) {
		w.AllowDifferentOutcomes()
		w.RequireObservedWrites()
		w.Faults(patterns...)
		w.Nodes(1)
		rate := &rates{}
		w.Always(rankNeverDecreases())
		w.Always(rate.invariant())
		w.Disable(invariant.AutomaticHotLoop) // two stages may undo each other; an engine that restarts has a new budget of writes
		w.Controller(actor, c.between(engine, rate))
		if c.Mover {
			w.Controller("mover", c.mover)
		}
		client, err := kubernetes.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		pods := client.CoreV1().Pods("default")
		for i := range c.Pods {
			w.Create(pod(i))
		}
		for _, a := range c.Acts {
			w.Advance(a.After)
			c.act(w, a, func(kind types.PatchType, patch string, under ...string) {
				// The pod may be gone, or may have moved on.
				_, _ = pods.Patch(context.Background(), nameOf(a.Pod), kind, []byte(patch), metav1.PatchOptions{}, under...)
			})
		}
		for i := range c.Pods {
			if c.Delete {
				w.Advance(time.Duration(1+5*i) * time.Second)
				w.Delete(pod(i))
				w.Eventually(toGo, invariant.Gone("pods", "default", nameOf(i)))
			} else {
				w.Eventually(toLastRank, c.atLastRank(i))
			}
		}
	}
}

func nameOf(i int) string { return fmt.Sprintf("p%d", i) }

func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: nameOf(i), Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}

func (c Case) act(w *simtest.World, a Act, patch func(kind types.PatchType, patch string, under ...string)) {
	switch a.Kind {
	case ActLabel:
		patch(types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"}}}`, w.Now().UnixNano()))
	case ActLatePatch:
		patch(types.MergePatchType, `{"status":{"conditions":[{"type":"example.com/late","status":"True"}]}}`, "status")
	case ActMoveOn:
		p := pod(a.Pod)
		if !w.Get(p) {
			return
		}
		patch(types.JSONPatchType, c.movedOn(p, a.By), "status")
	case ActRecreate:
		p := pod(a.Pod)
		w.Delete(p)
		for end := w.Now().Add(toRecreate); w.Get(p) && w.Now().Before(end); {
			w.Advance(time.Second)
		}
		if p = pod(a.Pod); !w.Get(p) {
			w.Create(pod(a.Pod))
		}
	}
}

// movedOn returns the JSON patch that moves a pod on by some ranks, unless it has moved on already.
func (c Case) movedOn(p *corev1.Pod, by int) string {
	was := "null"
	if p.Status.Message != "" {
		was = `"` + p.Status.Message + `"`
	}
	return fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},{"op":"test","path":"/status/message","value":%s},{"op":"add","path":"/status/message","value":"r%d"}]`,
		p.UID, was, min(rankOf(p.Status.Message)+by, c.Ranks))
}

// mover moves pods on after a stage has written its first half.
func (c Case) mover(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	half := make(chan *corev1.Pod, 100)
	see := func(o any) {
		if p := o.(*corev1.Pod); rankOf(p.Status.Message) < c.Ranks && hasHalf(p) {
			half <- p
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
	}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	for {
		select {
		case p := <-half:
			// A pod that has changed is observed again.
			_, _ = client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.JSONPatchType, []byte(c.movedOn(p, 2)), metav1.PatchOptions{}, "status")
		case <-ctx.Done():
			return nil
		}
	}
}

func hasHalf(p *corev1.Pod) bool {
	for label := range p.Labels {
		if strings.HasPrefix(label, "half-") {
			return true
		}
	}
	return false
}

// rankOf returns the rank in a message; 0 for none.
func rankOf(message string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(message, "r"))
	return n
}

func rankOfObject(u *unstructured.Unstructured) int {
	message, _, _ := unstructured.NestedString(u.Object, "status", "message")
	return rankOf(message)
}

// rankNeverDecreases returns the invariant that the rank of a pod never decreases.
func rankNeverDecreases() invariant.Invariant {
	before := map[types.UID]int{}
	return invariant.Func("the rank of a pod never decreases", func(v invariant.View) error {
		for _, u := range v.List("pods") {
			was, now := before[u.GetUID()], rankOfObject(u)
			if now < was {
				return fmt.Errorf("pod %s went from rank %d to %d", u.GetName(), was, now)
			}
			before[u.GetUID()] = now
		}
		return nil
	})
}

// atLastRank holds for a pod at the last rank, and for one that was deleted by a fault.
func (c Case) atLastRank(i int) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("pod %s is at rank %d, or gone", nameOf(i), c.Ranks), func(v invariant.View) error {
		if u := v.Get("pods", "default", nameOf(i)); u != nil && rankOfObject(u) < c.Ranks {
			return fmt.Errorf("it is at rank %d", rankOfObject(u))
		}
		return nil
	})
}

// rates counts the writes of each instance of the engine to each pod.
type rates struct {
	mu  sync.Mutex
	bad string
}

// mostRequests is the maximal number of requests of a stage.
const mostRequests = 2

func (r *rates) invariant() invariant.Invariant {
	return invariant.Func("a pod is not written more often than the budget allows", func(invariant.View) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.bad != "" {
			return fmt.Errorf("%s", r.bad)
		}
		return nil
	})
}

// between counts the writes of an engine and rejects some of them, between the engine and the API.
func (c Case) between(engine simtest.Constructor, r *rates) simtest.Constructor {
	left := map[string]int{}
	for _, x := range c.Reject {
		left[x.Stage] = x.Times
	}
	return func(ctx context.Context, config *rest.Config) error {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &middle{next: next, rates: r, reject: c.Reject, left: left, writes: map[string][]time.Time{}}
		})
		return engine(ctx, config)
	}
}

type middle struct {
	next   http.RoundTripper
	rates  *rates
	reject []Rejection
	left   map[string]int
	writes map[string][]time.Time // of this instance, by the pod's path
}

// RoundTrip implements http.RoundTripper.
func (m *middle) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodGet || r.Method == http.MethodPost || !strings.Contains(path, "/pods/") {
		return m.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.rates.mu.Lock()
	m.count(path)
	rejection := m.rejects(r, body)
	m.rates.mu.Unlock()
	if rejection != nil {
		return rejection, nil
	}
	return m.next.RoundTrip(r)
}

// count records a write, and whether it exceeds the budget: in any span of time an engine may run WriteBurst
// stages and one more every WriteEvery. A recreated pod has its own budget.
func (m *middle) count(path string) {
	now := time.Now()
	all := append(m.writes[path], now)
	m.writes[path] = all
	for i, first := range all {
		most := 2 * mostRequests * (stage.WriteBurst + 1 + int(now.Sub(first)/stage.WriteEvery))
		if n := len(all) - i; n > most && m.rates.bad == "" {
			m.rates.bad = fmt.Sprintf("%s was written %d times in %s", path, n, now.Sub(first))
		}
	}
}

// rejects returns the answer to a request that is rejected, nil for other requests.
func (m *middle) rejects(r *http.Request, body []byte) *http.Response {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/status") {
		return nil
	}
	for _, x := range m.reject {
		if !bytes.Contains(body, []byte(`"reason":"`+x.Stage+`"`)) {
			continue
		}
		if x.Times > 0 {
			if m.left[x.Stage] == 0 {
				continue
			}
			m.left[x.Stage]--
		}
		reasons := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 422: metav1.StatusReasonInvalid, 500: metav1.StatusReasonInternalError}
		answer, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: int32(x.Code), Reason: reasons[x.Code], Message: "admission webhook denied the request",
		})
		if err != nil {
			return nil
		}
		return &http.Response{
			StatusCode: x.Code, Header: http.Header{"Content-Type": []string{"application/json"}},
			Body: io.NopCloser(bytes.NewReader(answer)), Request: r,
		}
	}
	return nil
}

// Found is a failure that the search of one case has found.
type Found = family.Found[engineCase]

// engineCase is a case with its engine.
type engineCase struct {
	Case
	engine Engine
}

// Test implements family.Case. It ignores the controller, because the engine depends on the stages of the
// case.
func (e engineCase) Test(_ simtest.Constructor, patterns ...fault.Fault) func(*simtest.World) {
	set, err := e.Set()
	if err != nil {
		return func(w *simtest.World) { w.Fatalf("case %d: %v", e.Seed, err) }
	}
	return e.Case.Test(e.engine(set), patterns...)
}

// Search searches each of some cases for a number of runs, up to the first failure of each, and returns those
// that failed and how many runs there were. It logs failures, and does not fail the test.
func Search(t testing.TB, engine Engine, cases []Case, runs int, patterns ...fault.Fault) (found []Found, played int) {
	t.Helper()
	var all []engineCase
	for _, c := range cases {
		all = append(all, engineCase{c, engine})
	}
	return family.Rehearse(t, simtest.Seeds(runs), nil, all, patterns...)
}

package simtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// witness is a controller that records what its client observes, with the virtual time. The effects
// of faults are checked against these records and the API's contents, not against the record of the
// run.
type witness struct {
	mu    sync.Mutex
	since time.Time
	lived []string
}

// note appends a line, unless the witness has been terminated.
func (x *witness) note(ctx context.Context, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.since.IsZero() {
		x.since = time.Now()
	}
	if ctx.Err() == nil {
		x.lived = append(x.lived, fmt.Sprintf("%3.0fs %s", time.Since(x.since).Seconds(), fmt.Sprintf(format, args...)))
	}
}

func (x *witness) run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("default")
	x.note(ctx, "starts")
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names []string
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	x.note(ctx, "lists %s", strings.Join(names, " "))
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { x.watch(ctx, maps, list.ResourceVersion) })
	mark, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mark"}}, metav1.CreateOptions{})
	x.note(ctx, "creates: %s", word(err))
	if err == nil {
		mark.Data = map[string]string{"n": "1"}
		_, err = maps.Update(ctx, mark, metav1.UpdateOptions{})
		x.note(ctx, "updates: %s", word(err))
	}
	<-ctx.Done()
	return nil
}

func word(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return string(apierrors.ReasonForError(err))
	}
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
}

// watch watches from the last observed revision on, until that has expired.
func (x *witness) watch(ctx context.Context, maps clientcorev1.ConfigMapInterface, revision string) {
	for ctx.Err() == nil {
		events, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
		if err != nil {
			x.note(ctx, "watches: %s", word(err))
			return
		}
		for e := range events.ResultChan() {
			m, ok := e.Object.(*corev1.ConfigMap)
			if !ok {
				x.note(ctx, "sees %s %s", e.Type, word(apierrors.FromObject(e.Object)))
				return
			}
			if e.Type == watch.Bookmark {
				x.note(ctx, "sees a bookmark")
			} else {
				x.note(ctx, "sees %s %s%s", e.Type, m.Name, m.Data["n"])
			}
			revision = m.ResourceVersion
		}
		x.note(ctx, "its watch ends")
	}
}

// TestFaultEffects injects one fault of each kind into the requests and watches of a witness.
func TestFaultEffects(t *testing.T) {
	for _, c := range []struct {
		fault string // empty: no fault
		lived string
		truth string
	}{
		{"",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"lag actor=witness object=default/a for=5s",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 15s sees ADDED b; 15s sees MODIFIED a1;191s sees a bookmark", "a, b, mark"},
		{"relist actor=witness object=default/a for=5s",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 15s its watch ends; 15s sees ERROR Expired", "a, b, mark"},
		{"disconnect actor=witness object=default/a",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 10s its watch ends; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"drop-bookmark actor=witness nth=1",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 10s sees MODIFIED a1; 11s sees ADDED b", "a, b, mark"},
		{"lose-event actor=witness object=default/a",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"repeat-event actor=witness object=default/a",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s updates: ok; 10s sees MODIFIED a1; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"conflict actor=witness verb=update",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark;  0s starts;  0s updates: Conflict; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"quota actor=witness verb=create",
			"  0s creates: Forbidden;  0s lists a;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b"},
		{"deny actor=witness verb=update",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s starts;  0s updates: Forbidden; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"throttle actor=witness verb=create for=7s",
			"  0s lists a;  0s starts;  7s creates: ok;  7s sees ADDED mark;  7s sees MODIFIED mark1;  7s updates: ok; 17s sees MODIFIED a1; 18s sees ADDED b;198s sees a bookmark", "a, b, mark"},
		{"error actor=witness verb=create",
			"  0s creates: InternalError;  0s lists a;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b"},
		{"timeout actor=witness verb=create",
			"  0s lists a;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b; 30s creates:  request canceled (timeout awaiting response headers);191s sees a bookmark", "a, b"},
		{"lost-answer actor=witness verb=create",
			"  0s creates:  client connection lost;  0s lists a;  0s sees ADDED mark;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"error-after actor=witness verb=create",
			"  0s creates:  request timed out;  0s lists a;  0s sees ADDED mark;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"late-answer actor=witness verb=create for=7s",
			"  0s lists a;  0s sees ADDED mark;  0s starts;  7s creates: ok;  7s sees MODIFIED mark1;  7s updates: ok; 17s sees MODIFIED a1; 18s sees ADDED b;198s sees a bookmark", "a, b, mark"},
		{"late-request actor=witness verb=create for=7s",
			"  0s lists a;  0s starts;  7s creates: ok;  7s sees ADDED mark;  7s sees MODIFIED mark1;  7s updates: ok; 17s sees MODIFIED a1; 18s sees ADDED b;198s sees a bookmark", "a, b, mark"},
		{"crash-before actor=witness verb=create",
			"  0s creates: ok;  0s lists a;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s starts;  0s updates: ok; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"crash actor=witness verb=create",
			"  0s creates: ok;  0s lists a;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s starts;  0s updates: ok; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"crash-after actor=witness verb=create for=3s",
			"  0s lists a;  0s starts;  3s creates: AlreadyExists;  3s lists a mark;  3s starts; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"overlap actor=witness verb=create for=15s",
			"  0s creates: AlreadyExists;  0s creates: ok;  0s lists a;  0s lists a mark;  0s sees ADDED mark;  0s sees MODIFIED mark1;  0s starts;  0s starts;  0s updates: ok; 10s sees MODIFIED a1; 10s sees MODIFIED a1; 11s sees ADDED b; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
		{"deposed-write actor=witness verb=update for=20s",
			"  0s creates: AlreadyExists;  0s creates: ok;  0s lists a;  0s lists a mark;  0s starts;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b; 20s sees MODIFIED mark1", "a, b, mark"},
		{"pause actor=witness verb=update for=20s",
			"  0s creates: ok;  0s lists a;  0s starts; 20s sees ADDED b; 20s sees ADDED mark; 20s sees MODIFIED a1; 20s sees MODIFIED mark1; 20s updates: ok", "a, b, mark"},
		{"delete actor=witness verb=create",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees DELETED mark;  0s starts;  0s updates: NotFound; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b"},
		{"label actor=witness verb=create",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark;  0s starts;  0s updates: Conflict; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark rehearse-k8s.github.io/touched"},
		{"finalizer actor=witness verb=create for=1h",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark;  0s starts;  0s updates: Conflict; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark;3600s sees MODIFIED mark", "a, b, mark " + fault.InterferenceFinalizer},
		{"finalizer actor=witness verb=create for=20s",
			"  0s creates: ok;  0s lists a;  0s sees ADDED mark;  0s sees MODIFIED mark;  0s starts;  0s updates: Conflict; 10s sees MODIFIED a1; 11s sees ADDED b; 20s sees MODIFIED mark", "a, b, mark"},
		{"time-travel actor=witness verb=update",
			"  0s creates: AlreadyExists;  0s creates: ok;  0s lists ;  0s lists a;  0s sees ADDED a;  0s sees ADDED mark;  0s starts;  0s starts; 10s sees MODIFIED a1; 11s sees ADDED b;191s sees a bookmark", "a, b, mark"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			var faults []fault.Fault
			if c.fault != "" {
				f, err := fault.Parse(c.fault)
				must(t, err)
				faults = append(faults, f)
			}
			x := &witness{}
			var truth []string
			out := simtest.Play(t, simtest.Options{}, sim.Plan{Faults: faults}, func(w *simtest.World) {
				a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
				w.Create(a)
				w.Controller("witness", x.run)
				w.Settle()
				a.Data = map[string]string{"n": "1"}
				w.Update(a)
				w.Advance(time.Second)
				w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
				w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c"}}) // an object of another kind, so that bookmarks have a newer revision
				w.Advance(3 * time.Minute)
				for _, o := range w.View().List("configmaps") {
					text := o.GetName()
					for key := range o.GetLabels() {
						text += " " + key
					}
					for _, finalizer := range o.GetFinalizers() {
						text += " " + finalizer
					}
					truth = append(truth, text)
				}
			})
			if out.Run.Failure != nil {
				t.Error(out.Run.Failure)
			}
			slices.Sort(x.lived) // by time; lines of two goroutines at the same time have no order
			lived := strings.Join(x.lived, ";")
			if lived != c.lived || strings.Join(truth, ", ") != c.truth {
				t.Errorf("\n\t\t\tlived %q\n\t\t\twant  %q\n\t\t\ttruth %q\n\t\t\twant  %q", lived, c.lived, strings.Join(truth, ", "), c.truth)
			}
		})
	}
}

package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// reader creates three ConfigMaps, and reads them with each kind of list. It records what it observes.
type reader struct {
	start    time.Time
	maps     corev1client.ConfigMapInterface
	observed []string
}

func (r *reader) run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	r.maps, r.start = client.CoreV1().ConfigMaps("default"), time.Now()
	var revisions []string
	for _, name := range []string{"a", "b", "c"} {
		m, err := r.maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		revisions = append(revisions, m.ResourceVersion)
	}
	initial := metav1.ListOptions{SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
	if events, err := r.maps.Watch(ctx, initial); err != nil {
		r.note("initial events: " + word(err))
	} else {
		events.Stop()
		for range events.ResultChan() {
		}
	}
	r.follow(ctx, r.list(ctx, "any", metav1.ListOptions{ResourceVersion: "0", Limit: 500}))
	r.list(ctx, "not older than b", metav1.ListOptions{ResourceVersion: revisions[1]})
	r.list(ctx, "exact b", metav1.ListOptions{ResourceVersion: revisions[1], Limit: 500})
	r.list(ctx, "newest", metav1.ListOptions{})
	<-ctx.Done()
	return nil
}

func (r *reader) note(text string) { r.observed = append(r.observed, text) }

func (r *reader) list(ctx context.Context, how string, o metav1.ListOptions) *corev1.ConfigMapList {
	list, err := r.maps.List(ctx, o)
	if err != nil {
		r.note(how + ": " + word(err))
		return nil
	}
	text := how + ":"
	for _, m := range list.Items {
		text += " " + m.Name
	}
	r.note(text)
	return list
}

// follow creates another ConfigMap, and watches from a list for a minute.
func (r *reader) follow(ctx context.Context, list *corev1.ConfigMapList) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	events, err := r.maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		r.note("watch: " + word(err))
		return
	}
	if _, err := r.maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}); err != nil {
		r.note("create: " + word(err))
	}
	for e := range events.ResultChan() {
		if m, ok := e.Object.(*corev1.ConfigMap); ok {
			r.note(fmt.Sprintf("%ds %s %s", int(time.Since(r.start).Seconds()), e.Type, m.Name))
		}
	}
}

// TestStaleList: a list is answered from an older state where it permits that, and only there. The watch delivers the rest.
func TestStaleList(t *testing.T) {
	const rest = "not older than b: a b c d; exact b: a b; newest: a b c d"
	for text, want := range map[string]string{
		"stale-list verb=list":          "any: a b; 0s ADDED c; 0s ADDED d; " + rest,
		"stale-list verb=list writes=2": "any: a; 0s ADDED b; 0s ADDED c; 0s ADDED d; " + rest,
		"stale-list verb=list writes=9": "any:; 0s ADDED a; 0s ADDED b; 0s ADDED c; 0s ADDED d; " + rest,
		// The second list that permits it is the one that may not be older than b.
		"stale-list verb=list nth=2 writes=2": "any: a b c; 0s ADDED d; not older than b: a b; exact b: a b; newest: a b c d",
		"stale-list verb=list nth=2 writes=9": "any: a b c; 0s ADDED d; not older than b: a b; exact b: a b; newest: a b c d",
		"stale-list verb=list nth=3":          "any: a b c; 0s ADDED d; " + rest,
		// A watch that sends the initial objects fails, and the next list is stale.
		"stale-list verb=watch writes=2": "initial events: InternalError; any: a; 0s ADDED b; 0s ADDED c; 0s ADDED d; " + rest,
		// Another server, which is behind from the create of c on, or from the first list on.
		"other-server verb=create nth=3 for=20s": "any: a b; 20s ADDED c; 20s ADDED d; " + rest,
		"other-server verb=list for=20s":         "any: a b c; 20s ADDED d; " + rest,
		"other-server verb=create nth=3 for=2m":  "any: a b; not older than b: a b; exact b: a b; newest: a b c d",
	} {
		t.Run(text, func(t *testing.T) {
			f, err := fault.Parse(text)
			must(t, err)
			f.Actor, f.Resource = "reader", "configmaps"
			play := func() (*reader, *sim.Outcome) {
				r := &reader{}
				return r, simtest.Play(t, simtest.Options{}, sim.Plan{Faults: []fault.Fault{f}}, func(w *simtest.World) {
					w.Controller("reader", r.run)
					w.Advance(3 * time.Minute)
				})
			}
			r, out := play()
			if have := strings.Join(r.observed, "; "); have != want || out.Run.Failure != nil {
				t.Errorf("\nhave %s\nwant %s\n%v", have, want, out.Run.Failure)
			}
			named := slices.ContainsFunc(out.Run.Steps, func(s history.Step) bool { return s.Fault == f.String() })
			if applies := text != "stale-list verb=list nth=3"; named != applies {
				t.Errorf("a step names the fault: %t", named)
			}
			_, again := play()
			if n, differs := history.Diverged(out.Run, again.Run); differs {
				t.Errorf("the run does not repeat: step %d", n)
			}
		})
	}
}

// TestExpiredPage: a request for a further page is answered 410, with a token for the rest of the list as it is now.
func TestExpiredPage(t *testing.T) {
	f, err := fault.Parse("expired-page actor=pager resource=configmaps nth=2")
	must(t, err)
	var observed []string
	out := simtest.Play(t, simtest.Options{}, sim.Plan{Faults: []fault.Fault{f}}, func(w *simtest.World) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w.Controller("pager", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			page := metav1.ListOptions{Limit: 1}
			for range 5 {
				list, err := client.CoreV1().ConfigMaps("default").List(ctx, page)
				switch {
				case err != nil:
					observed = append(observed, word(err))
					page.Continue = continueOf(err)
				default:
					observed = append(observed, list.Items[0].Name)
					page.Continue = list.Continue
				}
			}
			<-ctx.Done()
			return nil
		})
		w.Settle()
	})
	if have := strings.Join(observed, " "); have != "a b Expired c d" || out.Run.Failure != nil {
		t.Errorf("observed %q, %v", have, out.Run.Failure)
	}
}

// continueOf returns the continue token of an error.
func continueOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

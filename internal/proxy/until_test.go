package proxy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// TestUntil: events of one resource are held until those of another one have been delivered, and
// not longer.
func TestUntil(t *testing.T) {
	p := newProxy(t)
	c := through(t, p, "c", admin)
	ns := namespace(t)
	r := begin(t, p, proxy.Hooks{}, "lag actor=c resource=configmaps object="+ns+"/a nth=1 until=secrets")
	late := follow(t, c, ns)
	defer late.Stop()
	secrets, err := c.CoreV1().Secrets(ns).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer secrets.Stop()
	must(t, create(t.Context(), c, ns, "a"))
	_, err = c.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	must(t, err)
	_ = events(t, secrets, 1)
	_ = events(t, late, 1)
	run := r.End()
	var frames []history.Step
	for _, s := range run.Steps {
		if s.Kind == history.Frame && (s.Resource == "configmaps" && s.Name == "a" || s.Resource == "secrets") {
			frames = append(frames, s)
		}
	}
	if len(frames) != 2 || frames[0].Resource != "secrets" || frames[1].Fault == "" || frames[1].At-frames[0].At > proxy.Quiet/2 {
		t.Errorf("%+v", frames)
	}
}

// TestLongest: a hold that ends when nothing happens also ends if something always happens.
func TestLongest(t *testing.T) {
	p := newProxy(t)
	c := through(t, p, "c", admin)
	ns := namespace(t)
	r := begin(t, p, proxy.Hooks{}, "lag actor=c resource=configmaps nth=1")
	r.HoldAtMost(2 * proxy.Quiet)
	w := follow(t, c, ns)
	defer w.Stop()
	must(t, create(t.Context(), c, ns, "a"))
	late := time.NewTimer(20 * proxy.Quiet)
	defer late.Stop()
	for n := 0; ; n++ {
		select {
		case <-w.ResultChan():
			if n == 0 {
				t.Error("it was not held")
			}
			return
		case <-late.C:
			t.Fatal("it is held forever")
		default:
			_, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{})
			must(t, err)
		}
	}
}

// TestExpect: a hold without a duration does not end while the user is about to act, however long nothing happens; it ends
// when nothing happens afterwards.
func TestExpect(t *testing.T) {
	p := newProxy(t)
	c := through(t, p, "c", admin)
	ns := namespace(t)
	r := begin(t, p, proxy.Hooks{}, "lag actor=c resource=configmaps nth=1")
	w := follow(t, c, ns)
	defer w.Stop()
	done := r.Expect()
	must(t, create(t.Context(), c, ns, "a"))
	late := time.NewTimer(3 * proxy.Quiet)
	defer late.Stop()
	select {
	case <-w.ResultChan():
		t.Error("it was not held")
	case <-late.C:
	}
	done()
	_ = events(t, w, 1)
}

package simtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// poller watches ConfigMaps, and every five seconds reads one and creates another one. It records the answers, and when
// its watches end.
type poller struct{ requests, watches []string }

func (p *poller) run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps, start := client.CoreV1().ConfigMaps("default"), time.Now()
	at := func() int { return int(time.Since(start).Seconds()) }
	for _, name := range []string{"a", "b"} {
		events, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return err
		}
		go func() {
			for range events.ResultChan() {
			}
			if ctx.Err() == nil {
				p.watches = append(p.watches, fmt.Sprintf("%ds", at()))
			}
		}()
	}
	for n := range 5 {
		_, read := maps.Get(ctx, "a", metav1.GetOptions{})
		sent := at()
		_, write := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", n)}}, metav1.CreateOptions{})
		p.requests = append(p.requests, fmt.Sprintf("%ds get: %s, create: %s", sent, word(read), word(write)))
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return nil
}

// TestOutage: during an outage every request is rejected, and all watches end at its beginning; during a partition writes get
// no answer, reads work and watches continue. Both end with their hold, and apply to an instance that starts meanwhile.
func TestOutage(t *testing.T) {
	ok := func(at int) string { return fmt.Sprintf("%ds get: ok, create: ok", at) }
	down := func(at int) string { return fmt.Sprintf("%ds get: ServiceUnavailable, create: ServiceUnavailable", at) }
	const lost = "create:  request canceled (timeout awaiting response headers)"
	for text, want := range map[string]struct {
		requests []string
		watches  string
	}{
		"outage verb=create nth=2 for=8s": {[]string{ok(0), "5s get: ok, create: ServiceUnavailable", down(10), ok(15), ok(20)}, "5s 5s"},
		"outage verb=create nth=2":        {[]string{ok(0), "5s get: ok, create: ServiceUnavailable", ok(10), ok(15), ok(20)}, "5s 5s"},
		"outage verb=get nth=2 for=1s":    {[]string{ok(0), down(5), ok(10), ok(15), ok(20)}, "5s 5s"},
		"partition nth=2 for=8s":          {[]string{ok(0), "5s get: ok, " + lost, ok(40), ok(45), ok(50)}, ""},
		"partition nth=2 for=40s":         {[]string{ok(0), "5s get: ok, " + lost, "40s get: ok, " + lost, ok(75), ok(80)}, ""},
		"partition nth=1 writes=1":        {[]string{"0s get: ok, " + lost, ok(35), ok(40), ok(45), ok(50)}, ""},
		"outage verb=create nth=9 for=1h": {[]string{ok(0), ok(5), ok(10), ok(15), ok(20)}, ""},
	} {
		t.Run(text, func(t *testing.T) {
			f, err := fault.Parse(text)
			must(t, err)
			f.Actor = "poller"
			play := func() (*poller, *sim.Outcome) {
				p := &poller{}
				return p, simtest.Play(t, simtest.Options{}, sim.Plan{Faults: []fault.Fault{f}}, func(w *simtest.World) {
					w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
					w.Controller("poller", p.run)
					w.Advance(2 * time.Minute)
				})
			}
			p, out := play()
			if strings.Join(p.requests, "; ") != strings.Join(want.requests, "; ") || strings.Join(p.watches, " ") != want.watches || out.Run.Failure != nil {
				t.Errorf("\nhave %q, watches end at %q\nwant %q, %q\n%v", p.requests, p.watches, want.requests, want.watches, out.Run.Failure)
			}
			_, again := play()
			if n, differs := history.Diverged(out.Run, again.Run); differs {
				t.Errorf("the run does not repeat: step %d", n)
			}
		})
	}
}

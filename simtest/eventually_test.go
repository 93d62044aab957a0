package simtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// createDone returns a controller that creates "done" once its cache contains "go". It checks after
// waits that double, or after fixed waits if fixed is not 0.
func createDone(fixed time.Duration) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		maps := factory.Core().V1().ConfigMaps().Lister().ConfigMaps("default")
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		for wait := time.Second; ; wait *= 2 {
			if fixed > 0 {
				wait = fixed
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			}
			if _, err := maps.Get("go"); err == nil {
				break
			}
		}
		_, err = client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "done"}}, metav1.CreateOptions{})
		if err == nil || ctx.Err() != nil {
			<-ctx.Done()
			return nil
		}
		return err
	}
}

// TestEventuallyWithFaults checks that the timeout of an eventual invariant is extended by the time
// for which faults delay something, and by no more.
func TestEventuallyWithFaults(t *testing.T) {
	const oracle = "configmaps default/done exists, within 1m0s"
	for name, c := range map[string]struct {
		fault    string
		wait     time.Duration // of the controller; 0: it backs off
		before   time.Duration // passes before the object is created
		violated bool
	}{
		// The controller checks at 255 s and 511 s.
		"a back-off as long as the lag":     {"lag actor=late resource=configmaps object=default/go for=6m", 0, 0, false},
		"no lag, and a wait of two minutes": {"", 2 * time.Minute, 0, true},
		"a wait much longer than the lag":   {"lag actor=late resource=configmaps object=default/go for=10s", 10 * time.Minute, 0, true},
		// Faults delay nothing in the hour in between.
		"a short lag long ago": {"late-request actor=late verb=list nth=1 for=10s", 65 * time.Minute, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []fault.Fault
			if c.fault != "" {
				f, err := fault.Parse(c.fault)
				must(t, err)
				faults = append(faults, f)
			}
			run := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1, Faults: faults}, func(w *simtest.World) {
				w.Controller("late", createDone(c.wait))
				if c.before > 0 {
					w.Advance(c.before)
				}
				w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "go"}})
				w.Eventually(time.Minute, invariant.Exists("configmaps", "default", "done"))
			}).Run
			switch {
			case !c.violated && run.Failure != nil:
				t.Error(run.Failure)
			case c.violated && (run.Failure == nil || !strings.HasPrefix(run.Failure.Oracle, oracle)):
				t.Errorf("violated: %+v", run.Failure)
			}
		})
	}
}

package simtest_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// diary creates an object each time it starts, so that the final state depends on the number of
// crashes.
func diary(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "life-"}}, metav1.CreateOptions{})
	<-ctx.Done()
	return err
}

// TestAllowDifferentOutcomes checks that the final state is compared with that of the runs without
// faults, unless the test allows different outcomes.
func TestAllowDifferentOutcomes(t *testing.T) {
	for _, vary := range []bool{false, true} {
		r := simtest.Explore(t, simtest.Seeds(10), func(w *simtest.World) {
			w.Faults(fault.Fault{Kind: fault.KindCrashAfter, Actor: "diary"})
			if vary {
				w.AllowDifferentOutcomes()
			}
			w.Controller("diary", diary)
		})
		switch {
		case vary && r.Failure != nil:
			t.Errorf("the final state was compared: %+v", r.Failure.Run.Failure)
		case !vary && (r.Failure == nil || !strings.HasPrefix(r.Failure.Run.Failure.Oracle, verdict.BaselineOracle)):
			t.Errorf("the final state was not compared: %+v", r.Failure)
		}
	}
}

// founder returns a constructor that creates the ConfigMap of that name, and another one if it exists.
func founder(name string) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		create := func(name string) error {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}
		if apierrors.IsAlreadyExists(create(name)) {
			_ = create(name + "-again")
		}
		<-ctx.Done()
		return nil
	}
}

// TestKeepGoing checks that a search continues after a failure only with KeepGoing, and then finds each different
// one.
func TestKeepGoing(t *testing.T) {
	for _, keepGoing := range []bool{false, true} {
		o, want := simtest.Seeds(30), 1
		if keepGoing {
			o, want = o.KeepGoing(), 2
		}
		r := simtest.Explore(t, o, func(w *simtest.World) {
			w.Faults(fault.Of(fault.KindCrashAfter))
			w.AllowDifferentOutcomes()
			for _, name := range []string{"a", "b"} {
				w.Controller(name, founder(name))
				w.Always(invariant.Never(invariant.Exists("configmaps", "default", name+"-again")))
			}
		})
		if len(r.Failures) != want {
			t.Errorf("keep going %v: %d failures", keepGoing, len(r.Failures))
		}
		for _, f := range r.Failures {
			if len(f.Plan.Faults) != 1 || f.Grade() != "3/3 identical" || !strings.HasSuffix(f.Run.Failure.Oracle, f.Plan.Faults[0].Actor+"-again exists") {
				t.Errorf("keep going %v: %s, %q, %s", keepGoing, f.Grade(), f.Run.Faults, f.Run.Failure.Oracle)
			}
		}
	}
}

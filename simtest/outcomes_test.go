package simtest_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
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

package simtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// exampleT takes the place of the *testing.T that a test function gets.
type exampleT struct{ testing.TB }

func (exampleT) Helper()                  {}
func (exampleT) Name() string             { return "Example" }
func (exampleT) Context() context.Context { return context.Background() }

// createSettings is a controller that writes one ConfigMap when it starts.
func createSettings(name string) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: "settings-"}}
		for ctx.Err() == nil {
			if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{}); err == nil {
				break
			}
			time.Sleep(time.Second) // virtual
		}
		<-ctx.Done()
		return nil
	}
}

// one is violated by a second ConfigMap.
var one = invariant.Func("there is at most one ConfigMap of the settings", func(v invariant.View) error {
	n := 0
	for _, o := range v.List("configmaps") {
		if o.GetGenerateName() == "settings-" {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("found %d", n)
	}
	return nil
})

// A controller that retries a create with a generated name writes a second object when the first answer was lost.
func ExampleExplore() {
	t := exampleT{}
	result := simtest.Explore(t, simtest.Seeds(50), func(w *simtest.World) {
		w.Faults(fault.LostAnswer("settings"))
		w.Always(one)
		w.Controller("settings", createSettings(""))
		w.Settle()
	})
	fmt.Println(result.Failure.Run.Failure.Message)
	for _, f := range result.Failure.Run.Faults {
		fmt.Println("fault:", f)
	}
	// Output:
	// found 2
	// fault: lost-answer actor=settings verb=create resource=configmaps nth=1
}

// With a fixed name the retry is answered AlreadyExists, and no fault leads to a second object.
func ExampleWorld_Eventually() {
	t := exampleT{}
	result := simtest.Explore(t, simtest.Seeds(50), func(w *simtest.World) {
		w.Faults(fault.LostAnswer("settings"), fault.Crash("settings"))
		w.Always(one)
		w.Eventually(time.Minute, invariant.Exists("configmaps", "default", "settings"))
		w.Controller("settings", createSettings("settings"))
		w.Settle()
	})
	fmt.Println("failure:", result.Failure)
	// Output:
	// failure: <nil>
}

// Options are one value: each method returns a copy with one change.
func ExampleSeeds() {
	options := simtest.Seeds(1000).Budget(5 * time.Minute).Level(fault.Seen)
	TestSettings := func(t *testing.T) {
		simtest.Run(t, options, func(w *simtest.World) {
			w.Controller("settings", createSettings("settings"))
			w.Eventually(time.Minute, invariant.Exists("configmaps", "default", "settings"))
		})
	}
	_ = TestSettings
}

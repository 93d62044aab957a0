package simtest_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestUntil checks that an event of one kind is delayed until an event of another kind has been
// delivered.
func TestUntil(t *testing.T) {
	for text, want := range map[string][]string{
		"lag actor=a resource=configmaps object=default/c nth=1 until=secrets":       {"secrets s", "configmaps c", "secrets t"},
		"lag actor=a resource=configmaps object=default/c nth=1 until=secrets@1003":  {"secrets s", "secrets t", "configmaps c"},
		"lag actor=a resource=configmaps object=default/none nth=1 until=secrets@12": {"configmaps c", "secrets s", "secrets t"},
	} {
		f, err := fault.Parse(text)
		must(t, err)
		var mu sync.Mutex
		var seen []string
		run := func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			all := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
			see := func(kind string) cache.ResourceEventHandlerFuncs {
				return cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, kind+" "+o.(metav1.Object).GetName())
				}}
			}
			for kind, informer := range map[string]cache.SharedIndexInformer{"configmaps": all.Core().V1().ConfigMaps().Informer(), "secrets": all.Core().V1().Secrets().Informer()} {
				if _, err := informer.AddEventHandler(see(kind)); err != nil {
					return err
				}
			}
			all.Start(ctx.Done())
			defer all.Shutdown()
			<-ctx.Done()
			return nil
		}
		out := simtest.Play(t, simtest.Options{}, sim.Plan{Faults: []fault.Fault{f}}, func(w *simtest.World) {
			w.Controller("a", run)
			w.Settle()
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
			w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
			w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "t"}})
		})
		if out.Run.Failure != nil {
			t.Error(out.Run.Failure)
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%s: seen %q", text, seen)
		}
	}
}

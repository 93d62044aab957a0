package proxy_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/test/faults"
)

// TestFaultConformance: in front of a real API server, a client observes of each kind of fault
// what the table says.
func TestFaultConformance(t *testing.T) {
	for _, row := range faults.Table {
		t.Run(row.Text, func(t *testing.T) {
			t.Parallel()
			maps := direct.CoreV1().ConfigMaps(namespace(t))
			c := &faults.Client{}
			a, err := maps.Create(t.Context(), faults.ConfigMap("a"), metav1.CreateOptions{})
			must(t, err)
			c.Namespace = a.Namespace
			p := newProxy(t)
			l, err := p.Listen(faults.Actor, admin)
			must(t, err)
			ps := &processes{client: c, config: l.Config(), ctx: t.Context()}
			r, err := p.Begin(history.Header{}, row.Faults(t, c.Namespace), proxy.Hooks{
				Crash:   func(string, fault.Fault) { ps.restart() },
				Overlap: func(string, fault.Fault) { ps.start() },
				Depose: func(fault.Fault, history.Step) bool {
					ps.restart()
					return true
				},
				Interfere: func(f fault.Fault, o history.Object) bool { return interfere(t, f, o) },
			})
			must(t, err)
			ps.start()
			// A delayed write must be under way, and all others complete: how soon depends on the machine.
			for begin := time.Now(); !c.Written(row.Instances()) && (!row.DelaysWrite() || time.Since(begin) < 500*time.Millisecond); {
				time.Sleep(10 * time.Millisecond)
			}
			a.ResourceVersion, a.UID = "", "" // another user may have changed it
			a.Data = map[string]string{"n": "1"}
			_, err = maps.Update(t.Context(), a, metav1.UpdateOptions{})
			must(t, err)
			_, err = maps.Create(t.Context(), faults.ConfigMap("b"), metav1.CreateOptions{})
			must(t, err)
			c.Note(faults.UserWrote)
			for late := time.Now().Add(20 * time.Second); !row.Complete(c) && time.Now().Before(late); {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond) // for what is too much
			list, err := maps.List(t.Context(), metav1.ListOptions{FieldSelector: mine.FieldSelector})
			must(t, err)
			var objects []metav1.Object
			for i := range list.Items {
				objects = append(objects, &list.Items[i])
			}
			row.Check(t, c, objects)
			ps.stop()
			must(t, l.Close())
			r.End()
		})
	}
}

// processes are the instances of the client.
type processes struct {
	client *faults.Client
	config *rest.Config
	ctx    context.Context

	mu      sync.Mutex
	cancel  []context.CancelFunc
	running sync.WaitGroup
}

func (p *processes) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(p.ctx)
	p.cancel = append(p.cancel, cancel)
	p.running.Go(func() { _ = p.client.Run(ctx, p.config) })
}

// terminate ends all instances.
func (p *processes) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.cancel {
		cancel()
	}
	p.cancel = nil
}

func (p *processes) restart() {
	p.terminate()
	p.start()
}

func (p *processes) stop() {
	p.terminate()
	p.running.Wait()
}

// interfere changes an object as another user, as the fault says.
func interfere(t *testing.T, f fault.Fault, o history.Object) bool {
	if other, ok := f.TargetObject(); ok {
		o = other
	}
	to := direct.CoreV1().RESTClient()
	maps := direct.CoreV1().ConfigMaps(o.Namespace)
	current, err := maps.Get(t.Context(), o.Name, metav1.GetOptions{})
	must(t, err)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	must(t, err)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	send := func(ctx context.Context, q inject.Interference) error {
		r := to.Verb(q.Method).Namespace(o.Namespace).Resource("configmaps").SetHeader("Content-Type", q.ContentType)
		if q.Method != "POST" {
			r.Name(o.Name)
		}
		if q.FieldManager != "" {
			r.Param("fieldManager", q.FieldManager)
		}
		return r.Body(q.Body).Do(ctx).Error()
	}
	q, ok := inject.NewInterference(f.Kind, o.Resource, u, o.UID)
	if !ok {
		t.Errorf("%s: no request", f)
		return false
	}
	if err := send(t.Context(), q); err != nil {
		t.Error(err)
	}
	switch f.Kind {
	case fault.KindEdit:
		must(t, send(t.Context(), inject.RevertEdit(u)))
	case fault.KindRecreate:
		must(t, send(t.Context(), inject.Recreation(nil, nil, u)))
	case fault.KindFinalizer:
		t.Cleanup(func() { _ = send(context.Background(), inject.RemoveFinalizer(u)) })
	}
	return true
}

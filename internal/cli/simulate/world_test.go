package simulate

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
)

// testTimeout limits the wait for an expected state.
const testTimeout = 60 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	apiserver.Quiet()
	os.Exit(m.Run())
}

// world is a cluster without a stage engine.
type world struct {
	t      *testing.T
	admin  *rest.Config
	client kubernetes.Interface
	node   string // the last one of kubelet
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	c, err := cluster.Start(context.Background(), cluster.Options{
		StateDir: t.TempDir(), Nodes: nodes, Controllers: []string{"serviceaccount-controller"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	admin, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	admin.QPS = -1
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, admin: admin, client: client}
	w.await("the default service account", func() bool {
		_, err := client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return w
}

// await waits for states that real processes and sockets reach after some time.
func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(testTimeout); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it never came: %s", what)
		}
	}
}

// pod creates a pod on a node.
func (w *world) pod(name, node string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) awaitRunning(pods ...string) {
	w.t.Helper()
	for _, name := range pods {
		w.await("pod "+name+" runs", func() bool {
			p, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
			return err == nil && p.Status.Phase == corev1.PodRunning
		})
	}
}

func (w *world) awaitReadyNodes(n int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d nodes are Ready", n), func() bool {
		list, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
		ready := 0
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		return err == nil && ready == n
	})
}

// replica is one simulate command with a connection that a test can interrupt.
type replica struct {
	w    *world
	wire wire
	said chan string
	log  lockedBuffer
	done chan error
	stop func()
}

// replica starts one; change may be nil.
func (w *world) replica(config *rest.Config, change func(*Options)) *replica {
	w.t.Helper()
	set, err := cluster.LoadStages(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{w: w, said: make(chan string, 1000), done: make(chan error, 1), stop: cancel}
	own := rest.CopyConfig(config)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport{next, func(request *http.Request) (*http.Response, error) { return r.wire.send(next, request) }}
	})
	o := Options{
		Config: own, Stage: &stages.StageOptions{Stages: set},
		Log: slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelWarn}), Verbose: true,
		Say: func(format string, args ...any) { r.said <- fmt.Sprintf(format, args...) }, Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	go func() { r.done <- Run(ctx, o) }()
	w.t.Cleanup(func() { r.end(nil) })
	return r
}

// hears waits for a line of output.
func (r *replica) hears(part string) string {
	r.w.t.Helper()
	end := time.After(testTimeout)
	for {
		select {
		case line := <-r.said:
			if strings.Contains(line, part) {
				return line
			}
		case err := <-r.done:
			r.done <- err
			r.w.t.Fatalf("it ended with %v before it said %q", err, part)
		case <-end:
			r.w.t.Fatalf("it never said %q", part)
		}
	}
}

// end stops it and checks its error.
func (r *replica) end(want error) {
	r.w.t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done <- err
		if !errors.Is(err, want) {
			r.w.t.Errorf("it ended with %v", err)
		}
	case <-time.After(testTimeout):
		r.w.t.Error("it did not end")
	}
}

// wire records writes and drops the requests that the test selects.
type wire struct {
	mu     sync.Mutex
	lose   func(*http.Request) bool
	hang   bool // a dropped request gets no answer instead of an error
	writes []write
}

type write struct {
	at, answered time.Time
	path         string
}

func (w *wire) cut(lose func(*http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose, w.hang = lose, false
}

// silence is cut without an error: no answer arrives.
func (w *wire) silence(lose func(*http.Request) bool) {
	w.cut(lose)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hang = true
}

func (w *wire) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	lost, hang := w.lose != nil && w.lose(r), w.hang
	w.mu.Unlock()
	if lost {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		if hang {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return nil, errors.New("the wire is cut")
	}
	begin := time.Now()
	answer, err := next.RoundTrip(r)
	if r.Method != http.MethodGet {
		w.mu.Lock()
		w.writes = append(w.writes, write{begin, time.Now(), r.URL.Path})
		w.mu.Unlock()
	}
	return answer, err
}

// written returns the writes whose path contains part.
func (w *wire) written(part string) []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []write
	for _, one := range w.writes {
		if strings.Contains(one.path, part) {
			out = append(out, one)
		}
	}
	return out
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

package store

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leaksOfUpstream()...) }

// leaksOfUpstream are goroutines of upstream that outlive the tests: the log's, and the watch
// cache's, which sleeps three seconds for each waiting reader, even after the reader has left.
func leaksOfUpstream() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreTopFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"),
	}
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

// pods returns a Storage for example pods, configured as in etcd3's own tests.
func pods(t testing.TB, ws *Worlds, transformer value.Transformer) *objects {
	t.Helper()
	s, err := ws.newObjects(Config{
		Codec:          apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion),
		Transformer:    transformer,
		NewFunc:        newPod,
		NewListFunc:    newPodList,
		ResourcePrefix: "/pods/",
		GroupResource:  schema.GroupResource{Resource: "pods"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running starts the background work of a Worlds, and stops it when the test ends.
func running(t testing.TB, ws *Worlds) *Worlds {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ws.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return ws
}

func pod(namespace, name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func podKey(p *example.Pod) string { return fmt.Sprintf("/pods/%s/%s", p.Namespace, p.Name) }

func mustCreate(t testing.TB, ctx context.Context, s storage.Interface, p *example.Pod) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := s.Create(ctx, podKey(p), p, out, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

// mustUpdate applies change to a pod that exists.
func mustUpdate(t testing.TB, ctx context.Context, s storage.Interface, key string, change func(*example.Pod)) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	err := s.GuaranteedUpdate(ctx, key, out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		change(obj.(*example.Pod))
		return obj, nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustDelete(t testing.TB, ctx context.Context, s storage.Interface, key string) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	err := s.Delete(ctx, key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustList(t testing.TB, ctx context.Context, s storage.Interface, opts storage.ListOptions) *example.PodList {
	t.Helper()
	out := &example.PodList{}
	opts.Recursive = true
	if err := s.GetList(ctx, "/pods/", opts, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// everything starts a watch of all pods from a revision on.
func everything(rv int64) storage.ListOptions {
	return storage.ListOptions{
		ResourceVersion: strconv.FormatInt(rv, 10),
		Predicate:       storage.Everything,
		Recursive:       true,
	}
}

func mustWatch(t testing.TB, ctx context.Context, s storage.Interface, opts storage.ListOptions) watch.Interface {
	t.Helper()
	w, err := s.Watch(ctx, "/pods/", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(w) })
	return w
}

// stop stops a watch and waits until its goroutine has returned.
func stop(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}

func rvOf(t testing.TB, obj runtime.Object) int64 {
	t.Helper()
	rv, err := storage.APIObjectVersioner{}.ObjectResourceVersion(obj)
	if err != nil {
		t.Fatal(err)
	}
	return int64(rv)
}

// prefixTransformer is the transformer of upstream's tests.
func prefixTransformer() value.Transformer {
	return storagetesting.NewPrefixTransformer([]byte(testPrefix), false)
}

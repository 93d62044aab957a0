package transfer_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

func TestMain(m *testing.M) {
	apiserver.Quiet()
	os.Exit(m.Run())
}

// noControllers selects no controller at all.
var noControllers = []string{"-" + cluster.StageController}

// startCluster starts a cluster that stops at the end of the test.
func startCluster(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.StateDir = t.TempDir()
	c, err := cluster.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// api is a client of a cluster for any kind.
type api struct {
	*testing.T
	dynamic.Interface
}

func connect(t *testing.T, config *rest.Config) api {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return api{t, c}
}

// on returns the client of a resource: GROUP/VERSION/RESOURCE, without a group for the core.
func (a api) on(resource, namespace string) dynamic.ResourceInterface {
	parts := strings.Split(resource, "/")
	gvr := schema.GroupVersionResource{Version: parts[0], Resource: parts[1]}
	if len(parts) == 3 {
		gvr = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	}
	if namespace == "" {
		return a.Resource(gvr)
	}
	return a.Resource(gvr).Namespace(namespace)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return obj
}

func (a api) create(resource, namespace, text string) *unstructured.Unstructured {
	a.Helper()
	obj, err := a.on(resource, namespace).Create(a.Context(), parse(a.T, text), metav1.CreateOptions{})
	if err != nil {
		a.Fatalf("%v\n%s", err, text)
	}
	return obj
}

func (a api) get(resource, namespace, name string) *unstructured.Unstructured {
	a.Helper()
	obj, err := a.on(resource, namespace).Get(a.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.Fatal(err)
	}
	return obj
}

func (a api) list(resource, namespace string) []unstructured.Unstructured {
	a.Helper()
	l, err := a.on(resource, namespace).List(a.Context(), metav1.ListOptions{})
	if err != nil {
		a.Fatal(err)
	}
	return l.Items
}

// await watches an object until it is as expected.
func (a api) await(resource, namespace, name string, expected func(*unstructured.Unstructured) bool) {
	a.Helper()
	client, fields := a.on(resource, namespace), "metadata.name="+name
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fields
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields
			return client.Watch(ctx, o)
		},
	}
	_, err := watchtools.UntilWithSync(a.Context(), lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		obj, ok := e.Object.(*unstructured.Unstructured)
		return ok && e.Type != watch.Deleted && expected(obj), nil
	})
	if err != nil {
		a.Fatalf("%s %s: %v", resource, name, err)
	}
}

// awaitServed waits until discovery lists a new version of kinds, which is after its definition is established.
func awaitServed(t *testing.T, config *rest.Config, version string) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, err := client.ServerResourcesForGroupVersion(version)
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("discovery does not list %s: %v", version, err)
	}
}

// number returns an integer of an object, 0 if it is absent.
func number(obj *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return n
}

// save returns a snapshot of a cluster.
func save(t *testing.T, config *rest.Config, format snapshot.Format, o transfer.SaveOptions) ([]byte, transfer.SaveResult) {
	t.Helper()
	if o.Warn == nil {
		o.Warn = t.Errorf
	}
	var b bytes.Buffer
	result, err := transfer.Save(t.Context(), config, &b, format, false, o)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), result
}

// read returns the objects of a snapshot.
func read(t *testing.T, data []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	r, err := snapshot.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for {
		obj, err := r.Next()
		if err == io.EOF {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
}

// file returns a snapshot with these objects, in YAML.
func file(t *testing.T, objects ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := snapshot.NewWriter(&b, snapshot.YAML, false, snapshot.Header{})
	for _, o := range objects {
		if err == nil {
			err = w.Write(parse(t, o))
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

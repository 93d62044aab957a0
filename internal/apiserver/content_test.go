package apiserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// startWith starts a server whose store begins with a file.
func startWith(t *testing.T, b apiserver.Backend, file []byte) (*apiserver.Server, error) {
	t.Helper()
	var content *snapshot.StoreReader
	if file != nil {
		var err error
		if content, err = snapshot.NewStoreReader(bytes.NewReader(file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := apiserver.Load(t.Context(), b, content); err != nil {
		return nil, err
	}
	s, err := apiserver.Start(context.Background(), apiserver.Options{Dir: filepath.Join(t.TempDir(), "pki"), Backend: b, WatchCache: true})
	if err != nil {
		return nil, err
	}
	t.Cleanup(s.Stop)
	return s, s.Ready(t.Context())
}

// saveStore returns the content of a server's store as a file, and the keys in it with their values.
func saveStore(t *testing.T, s *apiserver.Server) (file []byte, content map[string]string) {
	t.Helper()
	file, code := readStorePath(t, s.RESTConfig("test"))
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, file)
	}
	r, err := snapshot.NewStoreReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	content = map[string]string{}
	for {
		key, value, err := r.Next()
		if err == io.EOF {
			return file, content
		}
		if err != nil {
			t.Fatal(err)
		}
		content[key] = string(value)
	}
}

func readStorePath(t *testing.T, config *rest.Config) (body []byte, code int) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(config.Host + snapshot.StorePath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body, resp.StatusCode
}

// TestContent: a server begins with the content of another one's store, in memory and in etcd: the same objects with the same UIDs,
// but no leases and events, and the node ports stay allocated.
func TestContent(t *testing.T) {
	etcd := func() apiserver.Backend {
		e, err := apiserver.StartEmbeddedEtcd(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}
	memory := func() apiserver.Backend { return apiserver.Memory{Worlds: store.New(store.Options{ShareParts: true})} }
	for name, backends := range map[string][2]func() apiserver.Backend{
		"from memory to etcd": {memory, etcd}, "from etcd to memory": {etcd, memory},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := startWith(t, backends[0](), nil)
			if err != nil {
				t.Fatal(err)
			}
			pod := fillStore(t, client(t, source))
			file, content := saveStore(t, source)
			other, err := startWith(t, backends[1](), file)
			if err != nil {
				t.Fatal(err)
			}
			_, again := saveStore(t, other)
			for key, value := range content {
				got, exists := again[key]
				// The server updates its own objects, such as the status of a FlowSchema.
				ofTest := strings.Contains(key, "/default/") || key == "/registry/ranges/servicenodeports"
				if !exists || ofTest && got != value {
					t.Errorf("%s has another value, or does not exist", key)
				}
				if slices.ContainsFunc([]string{"/leases/", "/events/", "/masterleases/", "/configmaps/kube-system/extension-apiserver-authentication"}, func(part string) bool { return strings.Contains(key, part) }) {
					t.Errorf("the file has %s", key)
				}
			}
			if content["/registry/pods/default/a"] == "" || content["/registry/ranges/servicenodeports"] == "" {
				t.Errorf("no pod or no range of ports among %d keys", len(content))
			}
			k := client(t, other)
			got, err := k.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.UID != pod.UID || !got.CreationTimestamp.Equal(&pod.CreationTimestamp) || got.Status.Phase != corev1.PodRunning {
				t.Errorf("%v: %v, want %v", err, got, pod)
			}
			second := nodePort("second")
			second.Spec.Ports[0].NodePort = 30123
			if _, err := k.CoreV1().Services("default").Create(t.Context(), second, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
				t.Errorf("a second Service has the node port of the first: %v", err)
			}
			if _, err := startWith(t, backends[1](), file[:len(file)/2]); !isFormatError(err) {
				t.Errorf("half a file: %v", err)
			}
		})
	}
}

func isFormatError(err error) bool {
	var bad *snapshot.FormatError
	return errors.As(err, &bad)
}

func nodePort(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30123}}}}
}

// fillStore creates a running pod, a Service with a node port, a Lease and an Event.
func fillStore(t *testing.T, k kubernetes.Interface) *corev1.Pod {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(bool), ServiceAccountName: "default", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := k.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	check(err)
	pod, err = k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	check(err)
	pod.Status.Phase = corev1.PodRunning
	pod, err = k.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	check(err)
	_, err = k.CoreV1().Services("default").Create(t.Context(), nodePort("first"), metav1.CreateOptions{})
	check(err)
	_, err = k.CoordinationV1().Leases("default").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	check(err)
	_, err = k.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "a"}}, metav1.CreateOptions{})
	check(err)
	return pod
}

// TestPartOfContent: a data directory with a part of a snapshot is no cluster, and none can begin in a store that is not empty.
func TestPartOfContent(t *testing.T) {
	file, _ := saveStore(t, shared)
	dir := t.TempDir()
	etcd, err := apiserver.StartEmbeddedEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := startWith(t, etcd, file[:len(file)-1]); !isFormatError(err) {
		t.Errorf("a truncated file: %v", err)
	}
	etcd.Close()
	if etcd, err = apiserver.StartEmbeddedEtcd(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	for _, content := range [][]byte{nil, file} {
		if _, err := startWith(t, etcd, content); err == nil || !strings.Contains(err.Error(), "has only a part of the snapshot") {
			t.Errorf("the same directory: %v", err)
		}
	}
	worlds := apiserver.Memory{Worlds: store.New(store.Options{})}
	if _, err := startWith(t, worlds, file); err != nil {
		t.Fatal(err)
	}
	if _, err := startWith(t, worlds, file); !errors.Is(err, apiserver.ErrNotEmpty) {
		t.Errorf("a store that is not empty: %v", err)
	}
}

// TestWhoReadsContent: a user without the permission cannot read the store, which contains Secrets.
func TestWhoReadsContent(t *testing.T) {
	config := func(groups ...string) *rest.Config {
		cert, key, err := shared.ClientCertificate("someone", groups...)
		if err != nil {
			t.Fatal(err)
		}
		return &rest.Config{Host: shared.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: shared.CA(), CertData: cert, KeyData: key}}
	}
	if body, code := readStorePath(t, config("developers")); code != http.StatusForbidden {
		t.Errorf("%d: %d bytes", code, len(body))
	}
	if body, code := readStorePath(t, config("system:masters")); code != http.StatusOK || len(body) < 1000 {
		t.Errorf("%d: %d bytes", code, len(body))
	}
}

// TestContentOfOneMoment: the pages of etcd's content are those of one revision, although keys are written meanwhile.
func TestContentOfOneMoment(t *testing.T) {
	etcd, err := apiserver.StartEmbeddedEtcd(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	written := 0
	key := func(n int) string { return fmt.Sprintf("/registry/configmaps/default/%05d", n) }
	err = apiserver.LoadWith(t.Context(), etcd, func() (string, []byte, error) {
		if written++; written > 2500 {
			return "", nil, io.EOF
		}
		return key(2 * written), []byte("first"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = apiserver.Pairs(t.Context(), etcd, func(k string, value []byte) error {
		if found++; string(value) != "first" {
			t.Errorf("%s has the value %q", k, value)
		}
		if found%500 != 0 {
			return nil
		}
		for _, n := range []int{2*found + 2001, 5000} { // a key between those that are not read yet, and the last one
			if err := apiserver.Put(t.Context(), etcd, key(n), "second"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || found != 2500 {
		t.Errorf("%v: %d keys", err, found)
	}
}

// TestContentHasNoDeadline: a large store may take longer than other requests, which end after a minute.
func TestContentHasNoDeadline(t *testing.T) {
	asked := make(chan bool, 1)
	memory := apiserver.Memory{Worlds: store.New(store.Options{})}
	s, err := startWith(t, apiserver.Asked{Memory: memory, With: func(ctx context.Context) {
		_, limited := ctx.Deadline()
		asked <- limited
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	saveStore(t, s)
	if <-asked {
		t.Error("the request for the store has a deadline")
	}
}

package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestWatchListOfManyObjects: a watch-list of 120,000 objects finishes over a socket although its reader
// reads nothing while others write. In an earlier version, the events of the initial objects counted as
// events that the reader lags behind: the watch ended after 50,000, and client-go restarted it again and
// again.
func TestWatchListOfManyObjects(t *testing.T) {
	const written = 200
	present := 120_000
	if testing.Short() { // enough for the race detector
		present = 20_000
	}
	worlds := store.New(store.Options{})
	for i := range present {
		worlds.World("").RawPut(fmt.Sprintf("/configmaps/many/m-%06d", i),
			fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"many","name":"m-%06d","uid":"u-%d"}}`, i, i), 0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := start(ctx, t.TempDir(), apiserver.Memory{Worlds: worlds})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	writer := client(t, s).CoreV1()
	if _, err := writer.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(outside(t, s, "admin", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.CoreV1().RESTClient().Get().Namespace("many").Resource("configmaps").
		SetHeader("Accept", "application/json").
		VersionedParams(&metav1.ListOptions{
			Watch: true, SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for i := range written {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%06d", i), Labels: map[string]string{"written": "yes"}}}
		if _, err := writer.ConfigMaps("many").Update(ctx, m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	readWatchList(t, stream, present, written)
}

// readWatchList reads ADDED events of as many objects as present, the bookmark that ends them, and then as
// many MODIFIED events as written.
func readWatchList(t *testing.T, stream io.Reader, present, written int) {
	t.Helper()
	lines := bufio.NewReader(stream)
	for i := range present + 1 + written {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			t.Fatalf("the watch ended after %d events: %v", i, err)
		}
		want, content := "ADDED", fmt.Sprintf(`"name":"m-%06d"`, i)
		switch {
		case i == present:
			want, content = "BOOKMARK", metav1.InitialEventsAnnotationKey
		case i > present:
			want, content = "MODIFIED", fmt.Sprintf(`"name":"m-%06d"`, i-present-1)
		}
		if !bytes.HasPrefix(line, fmt.Appendf(nil, `{"type":%q`, want)) || !bytes.Contains(line, []byte(content)) {
			t.Fatalf("event %d is %.200s, want %s with %s", i, line, want, content)
		}
	}
}

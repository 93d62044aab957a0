package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// busyConnection is a connection whose first flush, that of the headers of a watch, waits until release is closed.
type busyConnection struct {
	http.ResponseWriter
	opened, release, complete chan struct{}
	events, want              int // received, and when complete is closed
	writes, flushes           int
}

func (c *busyConnection) Flush() {
	if c.flushes++; c.flushes == 1 {
		close(c.opened)
		<-c.release
	}
}

func (c *busyConnection) Write(p []byte) (int, error) {
	c.writes++
	if c.events += bytes.Count(p, []byte(`"type":"ADDED"`)); c.events == c.want {
		close(c.complete)
	}
	return len(p), nil
}

func (c *busyConnection) CloseNotify() <-chan bool { return nil }

// TestWatchIsWrittenInBatches: events that wait until a connection of the socket accepts the next one are written together. Without the
// channel of bufferedWatch or without withBatchedWatches, each has a write or a flush of its own.
func TestWatchIsWrittenInBatches(t *testing.T) {
	k := client(t, shared).CoreV1()
	created, err := k.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "batches-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns := created.Name
	list, err := k.ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := shared.ClientCertificate("reader", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	const n = 60
	c := &busyConnection{
		ResponseWriter: httptest.NewRecorder(), want: n,
		opened: make(chan struct{}), release: make(chan struct{}), complete: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps?watch=true&resourceVersion="+list.ResourceVersion, nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		shared.Handler().ServeHTTP(c, r)
	}()
	<-c.opened
	other, err := k.ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	for i := range n {
		if _, err := k.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		<-other.ResultChan() // so the watch cache has the events
	}
	close(c.release)
	<-c.complete
	cancel()
	<-ended
	if c.writes > n/2 || c.flushes > n/2 {
		t.Errorf("%d events in %d writes, with %d flushes", n, c.writes, c.flushes)
	}
}

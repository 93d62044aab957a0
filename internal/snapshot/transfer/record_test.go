package transfer_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// recordingLimit ends a recording to which a change is missing.
const recordingLimit = 2 * time.Minute

// record records the changes that act makes, until there are n of them. Each one must be reported, also if several are written at once.
func record(t *testing.T, config *rest.Config, o transfer.RecordOptions, n int, act func()) []byte {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), recordingLimit)
	defer stop()
	if o.Warn == nil {
		o.Warn = t.Errorf
	}
	o.Started = func(int) { act() }
	reported := 0
	o.Recorded = func(changes int, _ snapshot.Change) {
		if changes > reported+1 {
			t.Errorf("%d changes are reported after %d", changes, reported)
		}
		if reported = changes; changes >= n {
			stop()
		}
	}
	var b bytes.Buffer
	result, err := transfer.Record(ctx, config, &b, snapshot.YAML, false, o)
	if err != nil || result.Changes != n || !result.Started {
		t.Fatalf("%v: %+v", err, result)
	}
	return b.Bytes()
}

// changes returns the changes of a recording.
func changes(t *testing.T, data []byte) (out []snapshot.Change) {
	t.Helper()
	r, err := snapshot.NewReader(bytes.NewReader(data))
	for err == nil {
		_, err = r.Next()
	}
	for err == io.EOF {
		c, e := r.NextChange()
		if e == io.EOF {
			return out
		}
		if err = io.EOF; e != nil {
			err = e
		}
		out = append(out, c)
	}
	t.Fatal(err)
	return nil
}

// TestRecord: each change of each kind is recorded once, in its order and with its manager; the data of Secrets is omitted.
func TestRecord(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	k := connect(t, c.RESTConfig())
	k.create("apiextensions.k8s.io/v1/customresourcedefinitions", "", widgets)
	awaitServed(t, c.RESTConfig(), "example.com/v1") // a recording discovers the kinds once
	k.create("v1/namespaces", "", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	k.create("v1/secrets", "shop", "{apiVersion: v1, kind: Secret, metadata: {name: password}, data: {password: c2VjcmV0}}")
	k.create("v1/configmaps", "shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: old}, data: {a: b, c: d}}")
	k.create("example.com/v1/widgets", "shop", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 1, colours: [red]}}")
	patch := func(resource, name, body string, subresources ...string) {
		t.Helper()
		if _, err := k.on(resource, "shop").Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "someone"}, subresources...); err != nil {
			t.Fatal(err)
		}
	}
	data := record(t, c.RESTConfig(), transfer.RecordOptions{SaveOptions: transfer.SaveOptions{Selection: transfer.Selection{Namespaces: []string{"shop"}}, OmitSecretData: true}}, 7, func() {
		patch("v1/configmaps", "old", `{"data": {"a": "new", "c": null}}`)
		patch("example.com/v1/widgets", "w", `{"spec": {"colours": ["red", "blue"]}}`)
		patch("example.com/v1/widgets", "w", `{"status": {"phase": "Ready"}}`, "status")
		patch("v1/secrets", "password", `{"data": {"password": "b3RoZXI="}}`)
		patch("v1/secrets", "password", `{"data": {"second": "b3RoZXI="}}`)
		k.create("v1/configmaps", "shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt}}")
		k.create("v1/configmaps", "shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}")
		for _, name := range []string{"old", "new"} {
			if err := k.on("v1/configmaps", "shop").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if bytes.Contains(data, []byte("b3RoZXI=")) || bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte("secret")))) {
		t.Error("the recording contains the data of a Secret")
	}
	var got []string
	created := ""
	for i, c := range changes(t, data) {
		text := fmt.Sprintf("%s %s", c.Method, c)
		if c.Method == snapshot.Patch {
			line, _ := snapshot.AppendJSON(nil, c.Template)
			text += " by " + c.Manager + ": " + strings.TrimSpace(string(line))
		}
		if c.Method == snapshot.Create {
			created, _ = c.Template["metadata"].(map[string]any)["uid"].(string)
		}
		if i > 0 && c.After > time.Minute {
			t.Error(c.After)
		}
		got = append(got, text)
	}
	if created == "" {
		t.Error("a created object has no UID")
	}
	if d := cmp.Diff([]string{
		`patch configmaps shop/old by someone: {"data":{"a":"new","c":null}}`,
		`patch widgets.example.com shop/w by someone: {"metadata":{"generation":2},"spec":{"colours":["red","blue"]}}`,
		`patch widgets.example.com shop/w by someone: {"status":{"phase":"Ready"}}`,
		`patch secrets shop/password by someone: {"data":{"second":"b21pdHRlZA=="}}`,
		`create configmaps shop/new`,
		`delete configmaps shop/old`,
		`delete configmaps shop/new`,
	}, got); d != "" {
		t.Error(d)
	}
}

// TestRecordExpired: a watch whose revision is compacted is listed again, and the differences are recorded, with a warning.
func TestRecordExpired(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	k := connect(t, c.RESTConfig())
	for _, name := range []string{"changed", "deleted", "again", "same"} {
		k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}")
	}
	config := rest.CopyConfig(c.RESTConfig())
	var watches atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" || watches.Add(1) > 1 {
				return next.RoundTrip(r)
			}
			for _, name := range []string{"deleted", "again"} {
				if err := k.on("v1/configmaps", "default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
			k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: again}}")
			k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: created}}")
			if _, err := k.on("v1/configmaps", "default").Patch(t.Context(), "changed", types.MergePatchType, []byte(`{"data": {"a": "b"}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}`
			return &http.Response{StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})
	})
	w := &warnings{}
	data := record(t, config, transfer.RecordOptions{SaveOptions: transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"configmaps"}, Namespaces: []string{"default"}}, Warn: w.add}}, 5, func() {})
	var got []string
	for _, c := range changes(t, data) {
		got = append(got, string(c.Method)+" "+c.Name)
	}
	if d := cmp.Diff([]string{"delete again", "create again", "patch changed", "create created", "delete deleted"}, got); d != "" {
		t.Error(d)
	}
	if len(w.text) != 1 || !strings.HasPrefix(w.text[0], "the watch of configmaps expired") {
		t.Error(w.text)
	}
}

// TestRecordLateWatch: changes are in their order even if the watch of one kind begins long after the others, as on a busy machine.
func TestRecordLateWatch(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	k := connect(t, c.RESTConfig())
	config := rest.CopyConfig(c.RESTConfig())
	begin := make(chan struct{})
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") != "" && strings.Contains(r.URL.Path, "configmaps") {
				select {
				case <-begin:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return next.RoundTrip(r)
		})
	})
	ctx, stop := context.WithTimeout(t.Context(), recordingLimit)
	defer stop()
	reports := 0
	var b bytes.Buffer
	_, err := transfer.Record(ctx, config, &b, snapshot.YAML, false, transfer.RecordOptions{
		SaveOptions: transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"configmaps", "secrets"}, Namespaces: []string{"default"}}, Warn: t.Errorf},
		Started: func(int) {
			k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}")
			k.create("v1/secrets", "default", "{apiVersion: v1, kind: Secret, metadata: {name: second}}")
		},
		Recorded: func(changes int, _ snapshot.Change) {
			if reports++; reports == 25 { // longer than an event waits for those of other kinds
				close(begin)
			}
			if changes == 2 {
				stop()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes(t, b.Bytes()) {
		got = append(got, string(c.Method)+" "+c.Name)
	}
	if d := cmp.Diff([]string{"create first", "create second"}, got); d != "" {
		t.Error(d)
	}
}

// TestRecordInterrupted: a recording that ends before its objects are written is an error, and one that ends by its duration is complete.
func TestRecordInterrupted(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := transfer.Record(ctx, c.RESTConfig(), io.Discard, snapshot.YAML, false, transfer.RecordOptions{SaveOptions: transfer.SaveOptions{Warn: t.Errorf}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var b bytes.Buffer
	result, err := transfer.Record(t.Context(), c.RESTConfig(), &b, snapshot.JSONLines, true, transfer.RecordOptions{SaveOptions: transfer.SaveOptions{Warn: t.Errorf}, For: time.Nanosecond})
	if err != nil || result.Changes != 0 || len(changes(t, b.Bytes())) != 0 {
		t.Errorf("%v: %+v", err, result)
	}
}

package main

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseTerminated(t *testing.T) {
	got := parseTerminated([]byte(`# HELP apiserver_terminated_watchers_total [ALPHA] text
apiserver_terminated_watchers_total{group="",resource="pods"} 56
apiserver_terminated_watchers_total{group="a",resource="nodes"} 1
apiserver_terminated_watchers_total{group="b",resource="nodes"} 2
apiserver_watch_events_total{group="",resource="pods"} 9
`))
	if want := map[string]int64{"pods": 56, "nodes": 3}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestListMeta: the metadata of a list of any kind is read, and no body causes a panic.
func TestListMeta(t *testing.T) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}, Items: make([]corev1.Node, 3)}
	body, err := encode("v1", "NodeList", list)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := listMeta(body); err != nil || m.ResourceVersion != "42" {
		t.Errorf("%+v, %v; want revision 42", m, err)
	}
	for _, data := range [][]byte{nil, {0x0a}, {0x0a, 0x7f}, {0x12, 0}, {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		if err := (&listOfAny{&corev1.PodList{}}).Unmarshal(data); err == nil && len(data) < 2 {
			t.Errorf("%x: no error", data)
		}
	}
}

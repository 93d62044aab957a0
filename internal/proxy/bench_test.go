package proxy_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// ways are a client at the server itself, behind the proxy, and behind it in a run.
func ways(b *testing.B, do func(b *testing.B, client kubernetes.Interface)) {
	p, err := proxy.New(admin)
	if err != nil {
		b.Fatal(err)
	}
	d, err := p.Listen("c", admin)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	behind, err := kubernetes.NewForConfig(d.Config())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("direct", func(b *testing.B) { do(b, direct) })
	b.Run("proxy", func(b *testing.B) { do(b, behind) })
	b.Run("recorded", func(b *testing.B) {
		r, err := p.Begin(history.Header{}, nil, proxy.Hooks{})
		if err != nil {
			b.Fatal(err)
		}
		defer r.End()
		do(b, behind)
	})
}

// BenchmarkGet is how long a small read takes; half of them take no longer than p50.
func BenchmarkGet(b *testing.B) {
	ways(b, func(b *testing.B, client kubernetes.Interface) {
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			if _, err := client.CoreV1().Namespaces().Get(b.Context(), "default", metav1.GetOptions{}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	})
}

var fill = sync.OnceValue(func() error {
	const objects, size = 100, 200 << 10
	data := map[string]string{"data": strings.Repeat("0123456789abcdef", size/16)}
	if _, err := direct.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "big"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range objects {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: data}
		if _, err := direct.CoreV1().ConfigMaps("big").Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
})

// BenchmarkWatch reads watch events of 200 KB, 20 MB at a time.
func BenchmarkWatch(b *testing.B) {
	if err := fill(); err != nil {
		b.Fatal(err)
	}
	const bytes = 100 * 200 << 10
	ways(b, func(b *testing.B, client kubernetes.Interface) {
		b.SetBytes(bytes)
		for b.Loop() {
			ctx, stop := context.WithCancel(b.Context())
			stream, err := client.CoreV1().RESTClient().Get().Namespace("big").Resource("configmaps").
				VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: "0"}, metav1.ParameterCodec).Stream(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, stream, bytes); err != nil {
				b.Fatal(err)
			}
			stop()
			_ = stream.Close()
		}
	})
}

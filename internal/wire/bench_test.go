package wire_test

import (
	"net/http"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/rehearse-k8s/rehearse/internal/wire"
)

func BenchmarkDescribeCall(b *testing.B) {
	u, err := url.Parse("https://api/api/v1/namespaces/default/pods/a/status?fieldManager=job")
	if err != nil {
		b.Fatal(err)
	}
	for _, mediaType := range []string{jsonType, protobufType} {
		body := encode(b, mediaType, pod("a", uidA, "5"))
		b.Run(mediaType, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				wire.DescribeCall("PUT", u, http.Header{}, body)
			}
		})
	}
}

func BenchmarkDescribeEvent(b *testing.B) {
	for _, mediaType := range []string{jsonType, protobufType} {
		frame := stream(b, mediaType, watch.Event{Type: watch.Added, Object: pod("a", uidA, "5")})
		b.Run(mediaType, func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.DescribeEvent(mediaType, frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplitter(b *testing.B) {
	for _, mediaType := range []string{jsonType, protobufType} {
		whole := someStream(b, mediaType)
		s, err := wire.NewSplitter(mediaType)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(mediaType, func(b *testing.B) {
			b.SetBytes(int64(len(whole)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Write(whole); err != nil {
					b.Fatal(err)
				}
				for _, ok := s.Next(); ok; _, ok = s.Next() {
				}
			}
		})
	}
}

package store

import (
	"sync"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

var consistentReads sync.Once

// EnableConsistentReads makes the API server of this process assume that its storage supports
// progress requests, so that its watch cache may answer consistent reads. Upstream detects that by
// asking etcd, which does not exist here. It sets a global variable of the process, so call it
// before the server is built; further calls have no effect. Servers in the process that use etcd
// are not affected: every etcd that Kubernetes 1.36 supports has the feature.
func EnableConsistentReads() {
	consistentReads.Do(func() {
		feature.DefaultFeatureSupportChecker = progressSupported{feature.DefaultFeatureSupportChecker}
	})
}

// progressSupported answers true for RequestWatchProgress and leaves other features to upstream's
// checker.
type progressSupported struct{ feature.FeatureSupportChecker }

func (p progressSupported) Supports(f storage.Feature) bool {
	return f == storage.RequestWatchProgress || p.FeatureSupportChecker.Supports(f)
}

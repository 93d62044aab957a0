package store

import (
	"sync"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

var consistentReads sync.Once

// EnableConsistentReads tells the API server of this process that its storage
// supports progress requests, so that its watch cache may answer consistent reads.
// Upstream detects that by asking etcd, which does not exist here. It sets a variable
// of the process, so call it before the server is built; calling it again changes
// nothing. Servers of the process that are on etcd lose nothing by it: every etcd
// that Kubernetes 1.36 supports has the feature.
func EnableConsistentReads() {
	consistentReads.Do(func() {
		feature.DefaultFeatureSupportChecker = progressSupported{feature.DefaultFeatureSupportChecker}
	})
}

// progressSupported answers for RequestWatchProgress and leaves the rest as it was.
type progressSupported struct{ feature.FeatureSupportChecker }

func (p progressSupported) Supports(f storage.Feature) bool {
	return f == storage.RequestWatchProgress || p.FeatureSupportChecker.Supports(f)
}

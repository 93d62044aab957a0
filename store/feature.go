package store

import (
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

// EnableConsistentReads tells the API server of this process that its storage
// supports progress requests, so that its watch cache may answer consistent reads.
// Upstream finds that out by asking etcd; there is none to ask. It sets a variable
// of the process, so call it once, before the server is built, and only if all of
// its storage is this package's.
func EnableConsistentReads() {
	feature.DefaultFeatureSupportChecker = progressSupported{feature.DefaultFeatureSupportChecker}
}

// progressSupported answers for RequestWatchProgress and leaves the rest as it was.
type progressSupported struct{ feature.FeatureSupportChecker }

func (p progressSupported) Supports(f storage.Feature) bool {
	return f == storage.RequestWatchProgress || p.FeatureSupportChecker.Supports(f)
}

package cluster

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSignClientErrors: a damaged authority is named, with its file. testdata/cluster/persistent.txtar uses certificates.
func TestSignClientErrors(t *testing.T) {
	dir := t.TempDir()
	sign := func() error {
		_, _, err := signClient(dir, "jane", nil, time.Hour, time.Now())
		return err
	}
	for _, c := range []struct{ content, want string }{
		{"", "ca.crt: contains no certificate"},
		{"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca.crt: x509: malformed certificate"},
	} {
		writeFile(t, filepath.Join(dir, "ca.crt"), c.content)
		if err := sign(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

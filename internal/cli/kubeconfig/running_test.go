package kubeconfig

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// TestRunning: the cluster of an entry runs if its server answers with a certificate of the entry's authority.
func TestRunning(t *testing.T) {
	server := func() (*httptest.Server, []byte) {
		s := httptest.NewTLSServer(http.NotFoundHandler())
		t.Cleanup(s.Close)
		return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	running, authority := server()
	ended, _ := server()
	ended.Close()
	other, _, err := certutil.GenerateSelfSignedCertKey("other.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url       string
		authority []byte
		want      bool
	}{
		"runs":              {running.URL, authority, true},
		"has ended":         {ended.URL, authority, false},
		"another program":   {running.URL, other, false},
		"without authority": {running.URL, nil, false},
		"no URL":            {":", authority, false},
	} {
		file := filepath.Join(t.TempDir(), "config")
		config := clientcmdapi.NewConfig()
		config.Clusters["a"] = &clientcmdapi.Cluster{Server: c.url, CertificateAuthorityData: c.authority}
		if err := clientcmd.WriteToFile(*config, file); err != nil {
			t.Fatal(err)
		}
		target := Target{Files: []string{filepath.Join(t.TempDir(), "missing"), file}, Path: file}
		want, in := "", ""
		if c.want {
			want, in = c.url, file
		}
		if got, of := target.Running(t.Context(), "a", ""); got != want || of != in {
			t.Errorf("%s: %q in %q, want %q", name, got, of, want)
		}
		if got, _ := target.Running(t.Context(), "a", c.url); got != "" {
			t.Errorf("%s: its own: %q", name, got)
		}
		if got, _ := target.Running(t.Context(), "b", ""); got != "" {
			t.Errorf("%s: another name: %q", name, got)
		}
	}
}

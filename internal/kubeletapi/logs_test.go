package kubeletapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/logfile"
)

// TestLogOptions: the options of a log request in its URL, with the names and the values that the API server and older clients send.
func TestLogOptions(t *testing.T) {
	now := time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)
	s := New(Options{Now: func() time.Time { return now }})
	for query, want := range map[string]struct {
		options  logfile.Options
		previous bool
	}{
		"":                {},
		"sinceSeconds=90": {options: logfile.Options{Since: now.Add(-90 * time.Second)}},
		"sinceTime=" + url.QueryEscape("2027-03-01T08:00:00.5Z"):    {options: logfile.Options{Since: now.Add(-time.Hour + 500*time.Millisecond)}},
		"sinceTime=" + url.QueryEscape("2027-03-01T10:30:00+02:00"): {options: logfile.Options{Since: now.Add(-30 * time.Minute)}},
		"sinceSeconds=60&sinceTime=2027-03-01T08:00:00Z":            {options: logfile.Options{Since: now.Add(-time.Minute)}}, // the later time counts
		"sinceSeconds=7200&sinceTime=2027-03-01T08:00:00Z":          {options: logfile.Options{Since: now.Add(-time.Hour)}},
		"tailLines=0":                           {options: logfile.Options{TailLines: ptr.To[int64](0)}},
		"tail=3":                                {options: logfile.Options{TailLines: ptr.To[int64](3)}},
		"tail=all":                              {},
		"limitBytes=5&timestamps=true&follow=1": {options: logfile.Options{LimitBytes: ptr.To[int64](5), Timestamps: true, Follow: true}},
		"timestamps=false&follow=0&previous=true": {previous: true},
		"stream=Stderr": {options: logfile.Options{Stream: logfile.Stderr}},
		"stream=All":    {},
	} {
		got, previous, err := s.logOptions(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil))
		if !got.Since.IsZero() {
			got.Since = got.Since.UTC()
		}
		if d := cmp.Diff(want.options, got); d != "" || previous != want.previous || err != nil {
			t.Errorf("%s: previous %t, %v, %s", query, previous, err, d)
		}
	}
	for query, want := range map[string]struct {
		code int
		text string
	}{
		"sinceSeconds=0":      {422, "sinceSeconds: must be 1 or more"},
		"sinceSeconds=-5":     {422, "sinceSeconds: must be 1 or more"},
		"sinceSeconds=soon":   {400, `sinceSeconds: "soon" is not a number`},
		"sinceTime=yesterday": {400, `sinceTime: parsing time "yesterday" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "yesterday" as "2006"`},
		"tailLines=-1":        {422, "tailLines: must be 0 or more"},
		"limitBytes=0":        {422, "limitBytes: must be 1 or more"},
		"stream=Stdin":        {400, `invalid stream type "Stdin"`},
	} {
		// The whole handler: invalid options are rejected before any request to the API server.
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/containerLogs/default/web/main?"+query, nil), httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want.code || w.Body.String() != want.text {
			t.Errorf("%s: got %d %q, want %d %q", query, w.Code, w.Body, want.code, want.text)
		}
	}
}

package logfile

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ record, stream, text string }{
		{"2027-03-01T09:00:00.5Z stdout F ready\n", Stdout, "ready\n"},
		{"2027-03-01T10:00:00.5+01:00 stderr F a b  c\n", Stderr, "a b  c\n"},
		{"2027-03-01T09:00:00.5Z stdout P half\n", Stdout, "half"},
		{"2027-03-01T09:00:00.5Z stdout P:x:F half\n", Stdout, "half"},
		{"2027-03-01T09:00:00.5Z stdout F:P whole\n", Stdout, "whole\n"},
		{"2027-03-01T09:00:00.5Z stdout F \n", Stdout, "\n"},
		{`{"log":"ready\n","stream":"stdout","time":"2027-03-01T09:00:00.5Z"}` + "\n", Stdout, "ready\n"},
		{`{"log":"","stream":"stderr","time":"2027-03-01T09:00:00.5Z","attrs":{"a":"b"}}`, Stderr, ""},
	} {
		p, err := parserFor([]byte(c.record))
		if err != nil {
			t.Errorf("%q: %v", c.record, err)
			continue
		}
		l, _ := p([]byte(c.record))
		if l.Stream != c.stream || string(l.Text) != c.text || !l.Time.Equal(at(0).Add(500*time.Millisecond)) {
			t.Errorf("%q: got %+v %q", c.record, l, l.Text)
		}
	}
	for _, record := range []string{
		"", "ready", "2027-03-01 stdout F ready", "2027-03-01T09:00:00Z stdin F ready", "2027-03-01T09:00:00Z stdout F", "2027-03-01T09:00:00Z",
		"{}", `{"log":1}`, `{"log":"a","stream":"x","time":"2027-03-01T09:00:00Z"}`, `{"log":"a","stream":"stdout","time":"no"}`, `[1]`,
	} {
		if _, err := parserFor([]byte(record)); err == nil {
			t.Errorf("%q is accepted", record)
		}
	}
}

// at is a number of seconds after the first record of the tests.
func at(seconds int) time.Time {
	return time.Date(2027, 3, 1, 9, 0, seconds, 0, time.UTC)
}

// FuzzParse: a parser never panics, and a record that it accepts keeps its text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"2027-03-01T09:00:00.5Z stdout F ready\n", "2027-03-01T09:00:00Z stderr P:x half", "  ", "a b c d",
		`{"log":"ready\n","stream":"stdout","time":"2027-03-01T09:00:00.5Z"}`, `{"log":`, "\x00\n", "2027-03-01T09:00:00Z stdout F",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		if l, err := parseCRI(record); err == nil {
			if l.Stream != Stdout && l.Stream != Stderr || !bytes.HasSuffix(bytes.TrimSuffix(record, []byte("\n")), bytes.TrimSuffix(l.Text, []byte("\n"))) {
				t.Errorf("%q: got %+v", record, l)
			}
			if _, err := parseDocker(record); err == nil {
				t.Errorf("%q is in both formats", record)
			}
		}
		// A log of one record is written as it is parsed, or not at all.
		var out strings.Builder
		p, err := parserFor(record)
		if err != nil {
			return
		}
		l, err := p(record)
		if err != nil {
			t.Fatalf("%q: accepted, then %v", record, err)
		}
		if err := newWriter(&out, Options{}).write(l); err != nil || out.String() != string(l.Text) {
			t.Errorf("%q: wrote %q, %v", record, out.String(), err)
		}
	})
}

package fault

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// String returns the text form: the kind and the fields that are set, as in "lag actor=cloneset
// resource=pods object=default/web-1 nth=2 for=30s". It escapes spaces in a value as %20. [Parse]
// reads it back.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	field := func(name, value string) {
		if value != "" {
			b.WriteByte(' ')
			b.WriteString(name)
			b.WriteByte('=')
			escape(&b, value)
		}
	}
	field("actor", f.Actor)
	field("verb", f.Verb)
	field("resource", f.Resource)
	field("object", f.Object)
	field("target", f.Target)
	if f.Nth != 0 {
		field("nth", strconv.Itoa(f.Nth))
	}
	if f.For != 0 {
		field("for", f.For.String())
	}
	if f.Writes != 0 {
		field("writes", strconv.Itoa(f.Writes))
	}
	if f.UntilRevision != 0 {
		field("until", f.Until+"@"+strconv.FormatInt(f.UntilRevision, 10))
	} else {
		field("until", f.Until)
	}
	return b.String()
}

// Parse reads the text form of a fault. Its errors name the invalid word.
func Parse(text string) (Fault, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Fault{}, fmt.Errorf("fault: empty: want a kind and fields, as in %q", Fault{Kind: KindLag, Resource: "pods", Nth: 1})
	}
	f := Fault{Kind: Kind(words[0])}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return Fault{}, fmt.Errorf("fault %q: %q: want FIELD=VALUE", text, word)
		}
		if seen[name] {
			return Fault{}, fmt.Errorf("fault %q: %s is given twice", text, name)
		}
		seen[name] = true
		value, err := unescape(value)
		if err != nil {
			return Fault{}, fmt.Errorf("fault %q: %s=%w", text, name, err)
		}
		if err := f.set(name, value); err != nil {
			return Fault{}, fmt.Errorf("fault %q: %w", text, err)
		}
	}
	if err := f.check(); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", text, err)
	}
	return f, nil
}

func (f *Fault) set(name, value string) (err error) {
	switch name {
	case "actor":
		f.Actor = value
	case "verb":
		f.Verb = value
	case "resource":
		f.Resource = value
	case "object":
		f.Object = value
	case "target":
		f.Target = value
	case "nth":
		f.Nth, err = positive(name, value)
	case "writes":
		f.Writes, err = positive(name, value)
	case "for":
		f.For, err = time.ParseDuration(value)
		if err != nil || f.For <= 0 {
			err = fmt.Errorf("for=%s: want a duration such as 30s", value)
		}
	case "until":
		err = f.setUntil(value)
	default:
		err = fmt.Errorf("unknown field %s: want one of actor, verb, resource, object, target, nth, for, writes, until", name)
	}
	return err
}

// setUntil reads a resource, optionally with @ and a revision.
func (f *Fault) setUntil(value string) error {
	at := strings.LastIndexByte(value, '@')
	if at < 0 {
		f.Until = value
		return nil
	}
	n, err := strconv.ParseInt(value[at+1:], 10, 64)
	if err != nil || n < 1 || at == 0 {
		return fmt.Errorf("until=%s: want a resource such as pods, or one with a revision such as pods@1042", value)
	}
	f.Until, f.UntilRevision = value[:at], n
	return nil
}

func positive(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: want a number from 1", name, value)
	}
	return n, nil
}

// escape writes a value so that it is one word.
func escape(b *strings.Builder, value string) {
	for len(value) > 0 {
		r, size := utf8.DecodeRuneInString(value)
		if r == '%' || unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError && size == 1 {
			for _, c := range []byte(value[:size]) {
				fmt.Fprintf(b, "%%%02X", c)
			}
		} else {
			b.WriteString(value[:size])
		}
		value = value[size:]
	}
}

func unescape(value string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(value, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		c, err := strconv.ParseUint(after[:min(2, len(after))], 16, 8)
		if err != nil || len(after) < 2 {
			return "", fmt.Errorf("%s: %%%s: want %% and two hexadecimal digits", value, after[:min(2, len(after))])
		}
		b.WriteByte(byte(c))
		value = after[2:]
	}
}

func kindList() string {
	names := make([]string, len(traits))
	for i, t := range traits {
		names[i] = string(t.kind)
	}
	return strings.Join(names, ", ")
}

// ParseAll reads one fault per line. It ignores empty lines and lines that begin with #.
func ParseAll(lines []string) (faults []Fault, err error) {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f, err := Parse(line)
		if err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// Strings returns the text form of each fault.
func Strings(faults []Fault) []string {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.String()
	}
	return texts
}

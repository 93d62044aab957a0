package render

import "reflect"

// guardedQuickly is guarded for the shapes that most functions of templates have, at the
// same price: a function that reflection makes costs more than most of them do. It is nil for
// any other shape.
func (s *session) guardedQuickly(f any) any {
	pay := func(cost int) { s.must(s.spend(cost)) }
	gave := func(text string, err error) (string, error) {
		pay(weightOfText(text))
		return text, err
	}
	switch f := f.(type) {
	case func() string:
		return func() string {
			pay(1)
			text, _ := gave(f(), nil)
			return text
		}
	case func() (string, error):
		return func() (string, error) {
			pay(1)
			return gave(f())
		}
	case func(string) string:
		return func(a string) string {
			pay(1 + weightOfText(a))
			text, _ := gave(f(a), nil)
			return text
		}
	case func(string) (string, error):
		return func(a string) (string, error) {
			pay(1 + weightOfText(a))
			return gave(f(a))
		}
	case func(any) (string, error):
		return func(a any) (string, error) {
			pay(1 + s.weightOfAny(a))
			return gave(f(a))
		}
	case func(string) ([]string, error):
		return func(a string) ([]string, error) {
			pay(1 + weightOfText(a))
			list, err := f(a)
			pay(weightOfTexts(list))
			return list, err
		}
	case func(string, bool, string, string, string) ([]string, error):
		return func(a string, b bool, c, d, e string) ([]string, error) {
			pay(2 + weightOfText(a) + weightOfText(c) + weightOfText(d) + weightOfText(e))
			list, err := f(a, b, c, d, e)
			pay(weightOfTexts(list))
			return list, err
		}
	case func(any, string, string) string:
		return func(a any, b, c string) string {
			pay(1 + s.weightOfAny(a) + weightOfText(b) + weightOfText(c))
			text, _ := gave(f(a, b, c), nil)
			return text
		}
	}
	return nil
}

func weightOfText(text string) int { return 1 + len(text)/16 }

func weightOfTexts(list []string) int {
	sum := 1
	for _, text := range list {
		sum += weightOfText(text)
	}
	return sum
}

// weightOfAny is weightOf, which says nothing is 1 too.
func (s *session) weightOfAny(a any) int {
	if text, ok := a.(string); ok {
		return weightOfText(text)
	}
	if a == nil {
		return 1
	}
	return s.weightOf(reflect.ValueOf(a), 0)
}

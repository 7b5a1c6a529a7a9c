package redisx

import "strings"

const hexDigits = "0123456789ABCDEF"

// escape percent-escapes '%', control characters and the bytes in special.
func escape(s, special string) string {
	extra := 0
	for i := range len(s) {
		if escaped(s[i], special) {
			extra += 2
		}
	}
	if extra == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + extra)
	for i := range len(s) {
		if c := s[i]; escaped(c, special) {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escaped(c byte, special string) bool {
	return c < 0x20 || c == 0x7f || c == '%' || strings.IndexByte(special, c) >= 0
}

// unescape undoes escape. It says false for a text that escape does not write.
func unescape(s, special string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, escape(s, special) == s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			c, i = hexValue(s[i+1])<<4|hexValue(s[i+2]), i+2
		}
		b.WriteByte(c)
	}
	plain := b.String()
	return plain, escape(plain, special) == s
}

// hexValue is the value of a hexadecimal digit as escape writes it. For any other
// byte it is wrong, which unescape notices when it escapes again.
func hexValue(digit byte) byte {
	if digit >= 'A' {
		return digit - 'A' + 10
	}
	return digit - '0'
}

// A volume read and changed from Go, through cgo.
package main

/*
#cgo pkg-config: extant
#include <extant.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// failed is the error of a call: its words, and the number of Linux for errors.Is.
func failed(number C.int) error {
	if number == 0 {
		return nil
	}
	var words [256]C.char
	C.extant_error(&words[0], C.size_t(len(words)))
	return fmt.Errorf("%s: %w", C.GoString(&words[0]), syscall.Errno(number))
}

func text(words string) (*C.char, func()) {
	held := C.CString(words)
	return held, func() { C.free(unsafe.Pointer(held)) }
}

func list(image string) error {
	path, free := text(image)
	defer free()
	root, freeRoot := text("/")
	defer freeRoot()
	var volume *C.extant_volume
	if err := failed(C.extant_open(path, nil, &volume)); err != nil {
		return err
	}
	defer C.extant_close(volume)
	var walk *C.extant_walk
	if err := failed(C.extant_walk_tree(volume, root, &walk)); err != nil {
		return err
	}
	defer C.extant_walk_close(walk)
	for {
		var name *C.char
		var metadata C.extant_metadata
		metadata.struct_size = C.size_t(unsafe.Sizeof(metadata))
		if err := failed(C.extant_walk_next(walk, &name, &metadata)); err != nil {
			return err
		}
		if name == nil {
			return nil
		}
		fmt.Printf("%06o %s\n", uint32(metadata.mode), C.GoString(name))
	}
}

func write(image, name, content string) error {
	path, free := text(image)
	defer free()
	inside, freeInside := text(name)
	defer freeInside()
	bytes := []byte(content)
	var options C.extant_open_options
	options.struct_size = C.size_t(unsafe.Sizeof(options))
	options.access = C.EXTANT_CHANGE
	var volume *C.extant_volume
	if err := failed(C.extant_open(path, &options, &volume)); err != nil {
		return err
	}
	start := unsafe.Pointer(&bytes[0])
	if err := failed(C.extant_write(volume, inside, start, C.size_t(len(bytes)))); err != nil {
		C.extant_close(volume)
		return err
	}
	return failed(C.extant_commit(volume))
}

func main() {
	image := os.Args[1]
	for _, err := range []error{write(image, "/from-go", "hello\n"), list(image)} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println(write(image, "/no/such/folder", "x"))
}

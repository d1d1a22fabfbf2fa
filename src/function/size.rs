//! The numbers of blocks and threads of a launch.

macro_rules! size {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            /// The first dimension, which varies fastest.
            pub x: u32,
            /// The second dimension.
            pub y: u32,
            /// The third dimension.
            pub z: u32,
        }

        impl $name {
            /// One dimension.
            #[inline]
            pub fn x(x: u32) -> $name {
                $name { x, y: 1, z: 1 }
            }

            /// Two dimensions.
            #[inline]
            pub fn xy(x: u32, y: u32) -> $name {
                $name { x, y, z: 1 }
            }

            /// Three dimensions.
            #[inline]
            pub fn xyz(x: u32, y: u32, z: u32) -> $name {
                $name { x, y, z }
            }
        }

        impl From<u32> for $name {
            fn from(x: u32) -> $name {
                $name::x(x)
            }
        }

        impl From<(u32, u32)> for $name {
            fn from((x, y): (u32, u32)) -> $name {
                $name::xy(x, y)
            }
        }

        impl From<(u32, u32, u32)> for $name {
            fn from((x, y, z): (u32, u32, u32)) -> $name {
                $name::xyz(x, y, z)
            }
        }

        impl<'a> From<&'a $name> for $name {
            fn from(other: &$name) -> $name {
                other.clone()
            }
        }
    };
}
size!(GridSize, "The number of blocks in a grid.");
size!(BlockSize, "The number of threads in a block.");

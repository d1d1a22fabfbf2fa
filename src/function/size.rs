//! How many blocks and threads a launch has.

macro_rules! size {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            /// In the first dimension, whose neighbours are nearest.
            pub x: u32,
            /// In the second.
            pub y: u32,
            /// In the third.
            pub z: u32,
        }

        impl $name {
            /// In one dimension.
            #[inline]
            pub fn x(x: u32) -> $name {
                $name { x, y: 1, z: 1 }
            }

            /// In two dimensions.
            #[inline]
            pub fn xy(x: u32, y: u32) -> $name {
                $name { x, y, z: 1 }
            }

            /// In three dimensions.
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
size!(GridSize, "How many blocks a grid has.");
size!(BlockSize, "How many threads a block has.");

//! The declarations of the types in `several`, by short names.

/// Collects the attributes, the fields, the reads and the functions of the declarations of a type.
macro_rules! declare {
    ([] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        #[derive(Clone, Debug, Default, PartialEq, Entity)]
        #[entity(store, partition = "all", row = "thing_{id}")]
        $($attribute)*
        pub(super) struct Thing {
            id: u32,
            a: String,
            b: String,
            $($field)*
        }

        impl Copied for Thing {
            fn both(&self) -> [&str; 2] {
                [&self.a, &self.b]
            }
        }

        impl Several for Thing {
            const READS: &'static [(&'static str, Read<Self>)] = &[$($read)*];
            const B: Column<String> = Thing::B;

            fn identify(&mut self, id: u32) {
                self.id = id;
            }

            fn id(&self) -> u32 {
                self.id
            }

            fn values(&mut self) -> [&mut String; 2] {
                [&mut self.a, &mut self.b]
            }

            $($function)*
        }
    };
    ([one $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(index(name = one, row = "one_{a}"))]}
            {$($field)*}
            {$($read)* ("one", |things, thing| async move {
                Ok(things.find(Thing::one(thing.a)).await?.into_iter().collect())
            }.boxed()),}
            {$($function)*}
        }
    };
    ([many $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(index(name = many, row = "many_{a}", many))]}
            {$($field)*}
            {$($read)* ("many", |things, thing| async move {
                things.query(Thing::many(thing.a)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([near $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(index(name = near, row = "near_{a}", many, copy(a, b)))]}
            {$($field)*}
            {$($read)* ("near", |things, thing| async move {
                things.query(Thing::near(thing.a)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([far $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(index(name = far, partition = "far_{b}", row = "{id}"))]}
            {$($field)*}
            {$($read)* ("far", |things, thing| async move {
                things.query(Thing::far_all(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([part $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(index(name = part, partition = "part_{b}", row = "{id}", copy(a)))]}
            {$($field)*}
            {$($read)* ("part", |things, thing| async move {
                things.query(Thing::part_all(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([value $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(unique(name = value, value = "{a}"))]}
            {$($field)*}
            {$($read)* ("value", |things, thing| async move {
                Ok(things.find(Thing::value(thing.a)).await?.into_iter().collect())
            }.boxed()),}
            {$($function)*}
        }
    };
    ([buckets $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(unique(name = bucketed, value = "{a}", buckets = 2))]}
            {$($field)*}
            {$($read)* ("buckets", |things, thing| async move {
                Ok(things.find(Thing::bucketed(thing.a)).await?.into_iter().collect())
            }.boxed()),}
            {$($function)*}
        }
    };
    ([list $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(list(name = listed, value = "{b}"))]}
            {$($field)*}
            {$($read)* ("list", |things, thing| async move {
                things.query(Thing::listed(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([apart $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(list(name = apart, partition = "lists", value = "{b}"))]}
            {$($field)*}
            {$($read)* ("apart", |things, thing| async move {
                things.query(Thing::apart(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([blob_list $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)* #[entity(list(name = in_blob, value = "{b}", blob))]}
            {$($field)*}
            {$($read)* ("blob_list", |things, thing| async move {
                things.query(Thing::in_blob(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([other $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {
                $($attribute)*
                #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}", copy(a)))]
            }
            {$($field)*}
            {$($read)* ("other", |things, thing| async move {
                things.query(Thing::other_all(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([other_list $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {
                $($attribute)*
                #[entity(list(name = beside, table = "lists", partition = "lists", value = "{b}"))]
            }
            {$($field)*}
            {$($read)* ("other_list", |things, thing| async move {
                things.query(Thing::beside(thing.b)).all().await
            }.boxed()),}
            {$($function)*}
        }
    };
    ([encrypted $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)*}
            {$($field)* #[entity(encrypt)] secret: String,}
            {$($read)*}
            {
                $($function)*
                fn secret(&mut self) -> Option<&mut String> {
                    Some(&mut self.secret)
                }
            }
        }
    };
    ([field $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)*}
            {$($field)* #[entity(blob)] plain: String,}
            {$($read)*}
            {
                $($function)*
                fn plain(&mut self) -> Option<&mut String> {
                    Some(&mut self.plain)
                }
            }
        }
    };
    ([threshold compressed $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)*}
            {
                $($field)*
                #[entity(blob, threshold = 32)] text: String,
                #[entity(blob, compress)] packed: String,
                #[entity(blob, threshold = 32, compress)] both: String,
            }
            {$($read)*}
            {
                $($function)*
                fn texts(&mut self) -> Vec<&mut String> {
                    vec![&mut self.text, &mut self.packed, &mut self.both]
                }
            }
        }
    };
    ([reference $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)*}
            {$($field)* #[entity(blob)] scan: Option<BlobRef>,}
            {$($read)*}
            {
                $($function)*
                fn scan(&mut self) -> Option<&mut Option<BlobRef>> {
                    Some(&mut self.scan)
                }

                fn upload(
                    things: &Store<Self>,
                    id: u32,
                ) -> BoxFuture<'_, rowkey::Result<Option<BlobRef>>> {
                    let upload = things.upload_reader(Thing::key(id), &b"a scan"[..]);
                    async move { upload.send().await.map(Some) }.boxed()
                }

                fn has_content<'s>(
                    things: &'s Store<Self>,
                    thing: &'s Self,
                ) -> BoxFuture<'s, rowkey::Result<bool>> {
                    async move {
                        let Some(scan) = &thing.scan else { return Ok(false) };
                        Ok(things.download(scan).bytes().await? == b"a scan"[..])
                    }
                    .boxed()
                }
            }
        }
    };
    ([wide $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [numbers $($others)*] {$($attribute)* #[entity(wide = 4)]} {$($field)*} {$($read)*}
            {$($function)*}
        }
    };
    ([parts $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [numbers $($others)*] {$($attribute)* #[entity(wide = 4, parts)]} {$($field)*} {$($read)*}
            {$($function)*}
        }
    };
    ([numbers $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)*}
            {$($field)* #[entity(rest)] numbers: BTreeMap<String, i32>,}
            {$($read)*}
            {
                $($function)*
                fn numbers(&mut self) -> Option<&mut BTreeMap<String, i32>> {
                    Some(&mut self.numbers)
                }
            }
        }
    };
    ([expiry $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! {
            [$($others)*]
            {$($attribute)*}
            {$($field)* #[entity(expiry)] until: Option<DateTime<Utc>>,}
            {$($read)*}
            {
                $($function)*
                fn until(&mut self) -> Option<&mut Option<DateTime<Utc>>> {
                    Some(&mut self.until)
                }

                fn delete_expired(things: &Store<Self>) -> BoxFuture<'_, bool> {
                    async move { things.delete_expired().run().await.is_ok() }.boxed()
                }
            }
        }
    };
    // Those that are no declarations of the type.
    ([$extra:ident $($others:ident)*] {$($attribute:tt)*} {$($field:tt)*} {$($read:tt)*} {$($function:tt)*}) => {
        declare! { [$($others)*] {$($attribute)*} {$($field)*} {$($read)*} {$($function)*} }
    };
}

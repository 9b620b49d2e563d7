"""Words that nearly every text of a language has, for the languages that share a script."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

Weights = Mapping[str, tuple[tuple[str, float], ...]]  # by word, letter or ending: what it says for each language
LATIN: Mapping[str, str] = {
    "en": """a an i the of and to in is that it for was with as his on be at by this had not are but from or have they
        which one you were her all she there would their we him been has when who will more no if out so said what
        up its about into than them can only other new some could these may then do first any my now such like our
        over me even most after also did many before must through where much your should because each just those how
        too does between both under why while here again please write give explain make without something every
        using need want tell show following i'm don't it's people time year day way good know see think work world
        life water house one's you're can't isn't doesn't let yes who's three four five six seven eight nine ten
        never always""",
    "de": """der die das und ist nicht ein eine einer einen einem eines des dem den zu mit sich auf für im von es auch
        als an nach wie er sie wir ihr ich du mir mich dir uns aus bei noch nur aber oder wenn dass war hat haben
        wird werden kann können sind sein seine ihre mein meine dein unser über vor durch um am zum zur bis mehr
        sehr so schon wurde wurden waren hatte doch immer diese dieser dieses diesen jetzt hier dort weil damit ohne
        gegen unter zwischen alle alles etwas nichts kein keine keinen bitte schreibe erkläre was wer wo warum
        welche welcher muss müssen soll sollte möchte würde gibt heute man beim vom danke jahr jahre zeit tag
        menschen leben welt arbeit wasser haus gut neue neuen zwei drei vier fünf sechs sieben acht neun zehn kannst
        bist habe hast gehen machen sagen bevor nie nein gerne ganz viel viele wohl während niemand""",
    "fr": """le la les un une des du de et est en que qui dans pour pas sur au aux ce cette ces il elle nous vous ils
        elles je tu se sa son ses mon ma mes ton notre votre leur leurs avec par plus ne sont été être avoir ont
        fait comme mais ou où si tout tous toute toutes même sans aussi bien peut très donc quand après avant entre
        sous cela ceci rien encore était avait avez sommes êtes suis ai as quel quelle quels quelles pourquoi
        comment parce chez vers depuis pendant lors ainsi alors déjà toujours jamais écris explique veuillez merci
        faire c'est j'ai n'est qu'il d'un d'une l'on année temps jour gens vie monde travail eau maison bon bonne
        nouveau deux trois quatre cinq sept huit neuf dix l'eau pourrais pouvez peux aller oui non personne
        plusieurs beaucoup""",
    "es": """el la los las un una unos unas de del y es en que no por para con se lo su sus al como más pero le ya o
        este esta estos estas ese esa eso sí porque cuando muy sin sobre también me hasta hay donde quien desde todo
        todos toda todas nos durante uno les ni contra otros otro otra ante ellos ella ellas yo tú él mi mis tu tus
        antes algunos qué cuál cuáles cómo dónde son está están ser fue era han tiene tienen puede pueden hacer
        según entre así aunque después ahora siempre nunca escribe explica gracias usted ustedes nuestro nuestra
        había sido si cada mucho mucha año años tiempo día gente vida mundo trabajo agua casa bueno buena nuevo dos
        tres cuatro cinco seis siete ocho nueve diez puedes ir decir nadie vez mientras algo""",
    "it": """il lo la i gli le un uno una di del della dei degli delle dello e è in che non per con si su come più ma da
        dal dalla nel nella nei nelle sul sulla al alla ai alle questo questa questi queste quello quella sono era
        essere ha hanno ho hai abbiamo anche se o ed io tu lui lei noi voi loro mi ti ci vi mio mia suo sua suoi
        nostro tutto tutti tutte molto quando dove perché chi cosa quale quali quanto già ancora sempre mai dopo
        prima senza fra tra così però quindi può possono fare stato stata viene scrivi spiega grazie po' c'è dell'
        l'ha cui anno anni tempo giorno gente vita mondo lavoro acqua casa buono nuovo due tre quattro cinque sette
        otto nove dieci puoi andare dire nessuno mentre l'acqua tanto ogni""",
    "pt": """o a os as um uma uns umas de do da dos das e é em no na nos nas que não por para com se ao à aos às como
        mais mas foi ele ela eles elas eu tu você vocês nós seu sua seus suas meu minha nosso nossa este esta estes
        estas esse essa isso isto aquele também já só pelo pela pelos pelas até quando muito muita quem onde porque
        porquê qual quais ser são está estão estava era tem têm ter foram há sem sobre entre depois antes mesmo
        ainda sempre nunca cada todo todos toda todas num numa dele dela escreva explique obrigado lhe pode podem
        fazer então ano anos tempo dia gente vida mundo trabalho água casa bom boa novo dois duas três quatro cinco
        seis sete oito nove dez ir dizer ninguém vez enquanto algo""",
    "nl": """de het een en van ik is dat die in te niet zijn op aan met voor er maar om hem dan zou of wat mijn men dit
        zo door over ze zich bij ook tot je mij uit der daar haar naar heb hoe heeft hebben deze u want nog zal me
        zij nu ge geen omdat iets worden toch al waren veel meer doen toen moet ben zonder kan hun dus alles onder
        ja eens hier wie werd altijd doch wordt wezen kunnen ons zelf tegen na reeds wil kon niets uw iemand geweest
        andere wij hij jij jullie onze waar waarom welke schrijf leg graag bedankt tussen tijdens jaar tijd dag
        mensen leven wereld werk water huis goed nieuwe twee drie vier vijf zes zeven acht negen tien kun voordat
        gaan maken zeggen niemand nooit wel terwijl""",
    "sv": """och det att i en jag hon som han på den med var sig för så till är men ett om hade de av icke mig du henne
        då sin nu har inte hans honom skulle hennes där min man ej vid kunde något från ut när efter upp vi dem vara
        vad över än dig kan sina här ha mot alla under någon eller allt mycket sedan denna själv detta åt utan varit
        hur ingen mitt ni bli blev oss din dessa några deras blir mina samma vilken er sådan vår blivit dess inom
        mellan sådant varför varje vilka ditt vem vilket sitta också bara skriv förklara tack måste år tid dag
        människor liv värld arbete vatten hus bra ny två tre fyra fem sex sju åtta nio tio innan gå göra säga vet
        våra ja nej eftersom medan aldrig alltid""",
    "da": """og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min havde ham
        hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil blev kunne ind når
        være dog noget ville jo deres efter ned skulle denne end dette mit også under have dig anden hende mine alt
        meget sit sine vor mod disse hvis din nogle hos blive mange ad bliver hendes været thi jer sådan kun hvorfor
        hvordan uden nogen ingen lige bare mellem skriv forklar tak måtte år tid dag mennesker liv verden arbejde
        vand hus god ny to tre fire fem seks syv otte ni ti inden gå gøre sige ved vores ja nej mens aldrig altid
        fordi""",
    "no": """og i jeg det at en et den til er som på de med han av ikke der så var meg seg men ett har om vi min mitt ha
        hadde hun nå over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal selv sjøl her alle vil
        bli ble blitt kunne inn når være kom noen noe ville dere deres kun ja etter ned skulle denne for deg si sine
        sitt mot å meget hvorfor dette disse uten hvordan ingen din ditt blir samme hvilken hvilke sånn inni mellom
        vår hver hvem vors hvis både bare enn fordi før mange også slik vært begge siden mye skriv forklar takk
        måtte år tid dag mennesker liv verden arbeid vann hus god ny to tre fire fem seks sju åtte ni ti innen gå
        gjøre vet våre nei mens aldri alltid""",
    "fi": """ja on ei se että hän oli joka mutta kun ovat niin myös kuin tai jos vain sen hänen ole olla voi siitä jo
        mitä tämä tämän nyt sitä ollut kanssa sekä vielä mukaan minä sinä me te he minun sinun meidän heidän mikä
        missä miksi miten kuka joita jotka jonka johon josta tässä siellä täällä koska sitten kuitenkin hyvin paljon
        kaikki kaikkea mitään olen olet olemme olette eivät emme en et ennen jälkeen aina koskaan ilman välillä
        aikana noin tulee pitää täytyy voidaan kirjoita selitä kiitos onko vuosi aika päivä ihmiset elämä maailma
        työ vesi talo hyvä uusi yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen voitko
        mennä tehdä sanoa kukaan eikä kyllä""",
    "pl": """w i na z do się nie to że jest o jak za od po przez dla ale ma co czy tak by są był była było były jego jej
        ich tego tym ten ta te które który która którzy oraz lub albo może można tylko już jeszcze bardzo przy pod
        nad przed ze we bez ja ty on ona my wy oni mnie mi ci cię mu go nam nas was wam im gdy kiedy gdzie dlaczego
        ponieważ więc jednak także też wszystko wszystkie będzie być mieć mam masz sobie swój swoje kto jaki jaka
        jakie napisz wyjaśnij proszę dziękuję między podczas zawsze nigdy rok lata czas dzień ludzie życie świat
        praca woda dom dobry nowy dwa dwie trzy cztery pięć sześć siedem osiem dziewięć dziesięć możesz zanim iść
        robić nikt kiedyś""",
    "cs": """a v na se je že to s z do o i ve pro si by jsem jako ale za po k od tak jeho byl byla bylo byli jsou která
        které který kteří když nebo už jen jak ho co podle při až také není má před mezi kde proč protože může musí
        být této tento tato tohoto toho tím těch jejich její pod bez velmi ještě jsme jste jsi já ty on ona my vy
        oni mě mi mu nás vás jim tedy však všechno všechny něco nic kdo jaký jaká jaké napiš vysvětli prosím děkuji
        během vždy nikdy než ze rok čas den lidé život svět práce voda dům dobrý nový dva dvě tři čtyři pět šest
        sedm osm devět deset můžeš jít dělat říct nikdo zatímco""",
    "hu": """a az és hogy nem egy is ez ezt azt volt van meg csak már de mint ha vagy még ki el sem minden fel ami aki
        amely kell lehet nagyon én te ő mi ti ők nekem neki itt ott hol mikor miért mert akkor most így úgy után
        előtt között alatt nélkül szerint több sok nincs voltak lesz lett legyen vannak ezek azok ennek annak által
        pedig azonban valamint illetve mit hogyan melyik milyen írj magyarázd kérem köszönöm mindig soha egyik másik
        év idő nap emberek élet világ munka víz ház jó új kettő két három négy öt hat hét nyolc kilenc tíz tudsz
        menni tenni mondani senki mielőtt""",
    "ro": """și de în la a cu nu că pe o un să se din este ce mai care pentru sunt au fost lui prin dar sau am fi ca al
        ale ai ei lor ne îi îl le acest această aceste acești acel acea după când unde cum foarte numai doar fără
        între până despre eu tu el ea noi voi ele mine tine mea meu tău său sa sale unei unui unele toate toți tot
        fie poate trebuie era erau avea are ați avem deci însă totuși scrie explică mulțumesc rog cine cât câte
        întotdeauna niciodată an ani timp zi oameni viață lume muncă apă casă bun nou doi două trei patru cinci șase
        șapte opt nouă zece poți merge face spune nimeni înainte timpul""",
    "hr": """i u je na se da su za od s o kao a ne koji koja koje ali iz što bio bila bilo bili nije sam si smo ste biti
        ili po do te samo još kako već može mogu mora moraju gdje kada zašto jer ako ovaj ova ovo taj ta to njegov
        njezin njihov svi sve svoj prema između nakon prije bez vrlo tako također ja ti on ona mi vi oni mene tebe
        nas vas im mu joj ga koju kojem kojima bih bi će ću ćemo napiši objasni molim hvala uvijek nikad tijekom
        godina vrijeme dan ljudi život svijet posao voda kuća dobar novi dva dvije tri četiri pet šest sedam osam
        devet deset možeš ići raditi reći nitko dok""",
    "tr": """ve bir bu da de için ile olarak çok daha olan gibi en ne kadar sonra var ki ya her ben sen o biz siz onlar
        beni seni bana sana ona bize size benim senin onun bizim sizin ama veya ancak değil mi mı mu mü nasıl neden
        niçin nerede kim hangi şey şu önce göre üzerinde arasında içinde tarafından olduğu olduğunu olması ise hem
        bütün tüm hiç yok oldu olur edilen eden etmek yapmak lütfen yaz açıkla teşekkürler şimdi artık zaman çünkü
        yıl gün insanlar hayat dünya iş su ev iyi yeni iki üç dört beş altı yedi sekiz dokuz on yapabilir misin
        gitmek kimse değildir iken""",
    "id": """yang dan di ini itu untuk dengan tidak dari dalam akan pada juga saya ke karena tersebut bisa ada mereka
        lebih kata tahun sudah atau saat oleh menjadi orang ia telah adalah seperti sebagai bahwa dapat para harus
        namun kita dua satu masih hari hanya mengatakan kepada kami setelah melakukan lalu belum lain dia kalau
        terjadi banyak menurut anda hingga tak baru beberapa ketika saja jalan sekitar secara dilakukan sementara
        tapi sangat hal sehingga seorang bagi besar lagi selama antara waktu sebuah jika sampai jadi terhadap apa
        mengapa bagaimana siapa tolong tulis jelaskan terima kasih orang-orang hidup dunia kerja air rumah baik tiga
        empat lima enam tujuh delapan sembilan sepuluh bisakah pergi membuat sedikit sebelum kamu aku tadi malam
        mana kapan""",
    "vi": """và của là có không cho được trong một các những này đã với người khi để ở đến về như từ cũng tôi bạn anh
        chị em chúng ta nó họ đó ra vào nhiều thì phải nhưng vì nên rằng làm gì sao thế nào ai đâu bao giờ hay hoặc nếu
        theo trên dưới sau trước giữa rất quá chỉ còn đang sẽ bị bởi mà lại cả mỗi tất đều hơn nhất hãy viết giải
        thích xin vui lòng cảm ơn năm thời gian ngày đời việc nước nhà tốt mới hai ba bốn sáu bảy tám chín mười đi
        nói tối""",
}
CYRILLIC: Mapping[str, str] = {
    "ru": """и в не на я что с он а как это по но они мы она так из у за от же все бы для вы только было мне еще ещё до
        или если уже когда его ее её их чтобы был была были быть есть нет при этот эта эти этого того также очень
        может можно нужно где почему потому который которая которые которых без под над между после перед через
        напиши объясни пожалуйста спасибо меня тебя нас вас себя ему ей им ты кто какой какая какие сейчас всегда
        никогда чем об во со""",
    "uk": """і в не на я що з він а як це по але вони ми вона так із у за від же все би для ви тільки було мені ще до
        або якщо вже коли його її їх щоб був була були бути є немає при цей ця ці цього того також дуже може можна
        треба потрібно де чому тому який яка які яких без під над між після перед через напиши поясни будь ласка дякую
        мене тебе нас вас себе йому їй їм ти хто зараз завжди ніколи ніж про та й чи""",
    "bg": """и в не на аз че с той а как това по но те ние тя така от у за все бих за вие само беше ми още до или ако
        вече когато го я ги им му да се са съм си е бил била било били няма при този тази тези това онзи също много
        може трябва къде защо защото който която което които без под над между след преди през напиши обясни моля
        благодаря мен теб нас вас себе ти кой каква какви какво сега винаги никога от към със във ще""",
}
ARABIC: Mapping[str, str] = {
    "ar": """في من على إلى أن هذا هذه التي الذي عن مع ما لا كان كانت هو هي قد لم لن كل بعد قبل بين أو ثم إذا حتى عند
        ذلك تلك هناك هنا أنا نحن أنت هم غير أي كيف لماذا أين متى حيث يكون تكون ليس وقد كما منذ خلال أكثر أكتب اشرح
        شكرا فضلك بعض جدا يمكن يجب لكن و""",
    "fa": """در از به که این را با است و برای آن یک می تا بر هم نیز شده شد بود کرد کند کنید شود شما من ما او آنها ایشان
        هر اگر یا اما ولی چون چه چرا چگونه کجا کدام باید دارد دارند داشت باشد هستند نیست خود دیگر همه بسیار بین پس پیش
        روی زیر بدون مورد لطفا بنویس توضیح ممنون های ها ای""",
}

# How words of a language often end.
ENDINGS: Mapping[str, str] = {
    "en": "ing ted led red ned ion ess ful ght ent ous ble",
    "de": "ung ich eit aft tel eln ern hen gen ten",
    "fr": "ent eur aux eux ons ion ère ité lle",
    "es": "ión nte ado ada dos ndo aba dad ero",
    "it": "one nte ato ata are ere ire ità zza ggi",
    "pt": "ção ões nte ado ndo ade ram",
    "nl": "ing eid ijk gen ten den aar",
    "sv": "nde ing gen ade are rna lig",
    "da": "nde ing gen ede ere rne lig",
    "no": "nde ing gen ene ere lig",
    "fi": "ssa ssä lla llä sta stä lta ltä ksi een iin aan ään nen",
    "pl": "ego ach ych ści nie ami iej cie owa",
    "cs": "ost ého ých ami ení ání ové",
    "hu": "ság ség ban ben nak nek ból ről tól kat ket val vel ról",
    "ro": "lui lor ate rea esc ții eze tul",
    "hr": "ost ima nje nja ski aju ije ova",
    "tr": "lar ler yor dır dir mak mek ını ini dan den rak rek miz nız",
    "id": "kan nya ran tan nan man lah",
}


def weights_of(forms_by_language: Mapping[str, Iterable[str]], worth: float = 1.0) -> Weights:
    """What each form says for each language: its worth, shared by the languages that have it."""
    languages: defaultdict[str, list[str]] = defaultdict(list)
    for language, forms in forms_by_language.items():
        for form in dict.fromkeys(forms):
            languages[form].append(language)
    return {form: tuple((one, worth / len(ones)) for one in ones) for form, ones in languages.items()}


def split_words(words_by_language: Mapping[str, str]) -> dict[str, list[str]]:
    """The words of each language."""
    return {language: words.split() for language, words in words_by_language.items()}
